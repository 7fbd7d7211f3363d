"""The first replica of a tree is read by indexing every leaf with 0.

flax's `unreplicate` (up to flax 0.12.2), a function of the project, or
`jax.tree.map(lambda x: x[0], tree)`: each leaf is gathered from all devices and sliced, because
JAX does not know that the rows are equal. `shardlift fix` reads the first row from its own device.
A tree that a function gets and takes to the host in this way is a pmapped one, too, if the project
uses pmap.
"""

import ast
import re
from collections.abc import Iterator

from shardlift.source.file import File, remembered
from shardlift.source.flax_helpers import Fitness, fitness
from shardlift.source.idioms import first_of_tree_in
from shardlift.source.libraries import REPLICATE, UNREPLICATE
from shardlift.source.model import GUIDE, Kind, Level, Match, Rule
from shardlift.source.outputs import fetched_argument, is_quick_test, may_be_output
from shardlift.source.project import Project
from shardlift.source.values import Argument, Result


def visit(file: File) -> Iterator[Match]:
    """Every use of flax's helper, and the other forms for trees that come from pmap."""
    for call, tree in () if is_quick_test(file) else file.unreplications:
        if fetched_argument(file, tree) is not None:
            continue
        name = file.called(call) or ""
        if name in UNREPLICATE and fitness(name, file.project.settings) is not Fitness.SLOW:
            continue
        value = file.only(tree)
        stacked = isinstance(value, Result) and value.path in REPLICATE
        shown = stacked or may_be_output(file, tree) or _is_saved(file, call, tree)
        if name in UNREPLICATE or shown:
            across = ", across processes" if file.many_processes else ""
            text = f"every leaf is gathered from all devices{across}, then sliced"
            inner = first_of_tree_in(file, call)
            sites = (inner.node,) if inner is not None else ()
            yield Match(call, text, sites=sites, file=inner.file if inner is not None else None)


def _is_saved(file: File, call: ast.Call, tree: ast.expr) -> bool:
    """Whether what a function gets goes to the host, in a project that uses pmap."""
    if file.called(file.index.parents.get(call)) != "jax.device_get":
        return False
    while isinstance(tree, ast.Attribute):
        tree = tree.value
    return isinstance(file.only(tree), Argument) and _uses_pmap(file.project)


@remembered
def _uses_pmap(project: Project) -> bool:
    return any(file.mentions for file in project.files_with("pmap"))


RULE = Rule(
    code="SL402",
    level=Level.SLOW,
    summary="unreplicate, or a tree map of x[0], on a pmap output",
    advice="Read x.addressable_shards[0].data.squeeze(0) of each leaf, or use out_axes=None.",
    reference=f"{GUIDE}#the-unreplicate-anti-pattern",
    words=("pmap", "jax_utils", "common_utils", "device_get"),
    pattern=re.compile(rb"pmap|replicate|device_get"),
    bad=(
        "from flax import jax_utils\nstate = jax_utils.unreplicate(state)  # SL402",
        "import jax\np = jax.pmap(step)\nm = p(x)\nm = jax.tree.map(lambda v: v[0], m)  # SL402",
        "import jax\ndef first(tree):\n    return jax.tree_util.tree_map(lambda v: v[0], tree)\n"
        "p = jax.pmap(step)\nstate, m = p(state, x)\nprint(first(m))  # SL402",
        {
            "save.py": "import jax\ndef save(state):\n"
            "    return jax.device_get(jax.tree.map(lambda x: x[0], state.params))  # SL402",
            "train.py": "import jax\np = jax.pmap(step)\n",
        },
    ),
    good=(
        "import jax\ndef save(state):\n"
        "    return jax.device_get(jax.tree.map(lambda x: x[0], state))",
        "import jax\np = jax.pmap(step)\nm = jax.tree.map(lambda v: v.mean(), p(x))",
        "import jax\np = jax.jit(step)\nm = jax.tree.map(lambda v: v[0], p(x))",
        "from mylib import unreplicate\nstate = unreplicate(state)",
        "import jax\np = jax.pmap(step)\nm = p(x)\n"
        "m = jax.tree.map(lambda v: v.addressable_shards[0].data, m)",
    ),
    since=(0, 8),
    holds_for=((0, 10, 2), (0, 12, 2)),
    rewritten_as=frozenset({Kind.READ, Kind.PLACEMENT}),
)
