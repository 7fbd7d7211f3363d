"""A function is pmapped here.

`jax.pmap` is in maintenance mode: since JAX 0.8 it is a layer over `jax.jit(jax.shard_map(…))`,
which new code should use directly. These findings list all sites that can be migrated.
"""

import ast
from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.model import GUIDE, MAPS, Level, Match, Rule
from shardlift.source.sites import Role, Site, Usage


def visit(file: File) -> Iterator[Match]:
    """Every site that maps a function, by pmap or by another name for it."""
    for site in file.sites:
        if site.role is Role.MAP:
            yield Match(site.node, f"{_what(site)} is pmapped{_how(site)}")
    for one in file.unfollowed:
        yield Match(one.call, f"a function is mapped by {one.name}, which cannot be followed")


def _what(site: Site) -> str:
    kinds = {"lambda": "a lambda", "partial": "a partial", "call": "the result of a call"}
    if site.usage is Usage.DECORATOR:
        return f"`{site.targets[0]}`"
    if isinstance(site.operand, ast.expr) and site.operand_kind not in kinds:
        return f"`{site.file.brief(site.operand)}`"
    return kinds.get(site.operand_kind, "a function")


def _how(site: Site) -> str:
    by = f" by {site.transform.origin}" if site.transform.origin != "jax.pmap" else ""
    how = f" through {site.transform.chain[0]}()" if site.transform.chain else by
    return f"{how}, or passed to {site.otherwise[0]}" if site.otherwise else how


RULE = Rule(
    code="SL201",
    level=Level.NOTE,
    summary="a function is pmapped here",
    advice="Nothing, as long as it works. Leaving pmap: jax.jit(jax.shard_map(...)).",
    reference=f"{GUIDE}#migrating-to-jax-shard-map",
    words=("pmap", "Parallel"),
    bad=(
        "import jax\nstep = jax.pmap(train, axis_name='i')  # SL201",
        "import jax\n\nrows = jax.numpy.arange(jax.device_count())\n"
        "print(jax.pmap(lambda x: x - jax.lax.pmean(x, 'i'), 'i')(rows))  # SL201",
        "from functools import partial\nimport jax\n@partial(jax.pmap, axis_name='i')  # SL201\n"
        "def f(x):\n    return x",
        "import jax\nfn = (jax.pmap if n > 1 else jax.jit)(f)  # SL201",
        "import equinox as eqx\nstep = eqx.filter_pmap(f)  # SL201",
        "import jax\ndef pmap(f, *args):\n    return backend()['pmap'](f, *args)  # SL201\n"
        "step = pmap(train)  # SL201",
        "import objax\nstep = objax.Parallel(f, vc)  # SL201",
        "from flax import nnx\nstep = nnx.pmap(f)  # SL201",
        {
            "lib/parallel.py": "import jax\ndef everywhere(f):\n    return jax.pmap(f)\n",
            "lib/train.py": "from .parallel import everywhere\nstep = everywhere(f)  # SL201\n",
        },
    ),
    good=(
        "import jax\nstep = jax.vmap(train, axis_name='i')",
        "def pmap(f):\n    return f\nstep = pmap(train)",
        "from multiprocessing_tools import pmap\nstep = pmap(train)",
        "import jax\nhelp(jax.pmap)",
        "import jax\ntext = jax.pmap.__doc__",
        "step = pmap(train)",
        "import jax\ndef pmap(f):\n    return jax.vmap(f)\nstep = pmap(train)",
        "import jax\ndef run(pmap):\n    return pmap(train)",
        "import jax\njax = object()\nstep = jax.pmap(train)",
        {
            "lib/parallel.py": "import jax\ndef pmap(f):\n    return jax.vmap(f)\n",
            "lib/train.py": "from lib import parallel\nstep = parallel.pmap(f)\n",
        },
    ),
    rewritten_as=MAPS,
)
