"""In a program of many processes, a pmapped function runs inside jit, vmap, grad or a lax loop.

pmap then treats the tracers as local arrays, and its collectives use the local devices only. With 2
processes of 2 devices, a `psum` of 0, 1, 2, 3 gives 5 in the second process. The old pmap raised an
error.
"""

from collections.abc import Iterator

from shardlift.check.transforms import matches_under_transform
from shardlift.source.file import File
from shardlift.source.model import GUIDE, MAPS, Kind, Match, Rule


def visit(file: File) -> Iterator[Match]:
    """Transforms of pmapped functions in a project that several processes run."""
    if file.many_processes:
        text = "pmap inside {}: collectives do not cross processes"
        yield from matches_under_transform(file, text)


RULE = Rule(
    code="SL601",
    summary="pmap inside a transform in a program of many processes",
    advice="Call the pmapped function itself; for jax.vmap(jax.pmap(f)) write "
    "jax.pmap(jax.vmap(f), in_axes=1, out_axes=1); under grad use shardlift.pmap.",
    reference=f"{GUIDE}#transforming-jax-pmap-e-g-jax-jit",
    words=("pmap",),
    bad=(
        "import jax\njax.distributed.initialize()\nstep = jax.jit(jax.pmap(f))  # SL601",
        "import jax\nme = jax.process_index()\np = jax.pmap(f)\n@jax.jit\ndef step(x):\n"
        "    return p(x)  # SL601",
        "import jax\nme = jax.process_index()\n@jax.jit  # SL601\n@jax.pmap\ndef step(x):\n"
        "    return x",
        {
            "main.py": "import jax\nimport step\njax.distributed.initialize()",
            "step.py": "import jax\nstep = jax.jit(jax.pmap(f))  # SL601",
        },
    ),
    good=(
        "import jax\nstep = jax.jit(jax.pmap(f))",
        "import jax\nme = jax.process_index()\nstep = jax.pmap(jax.jit(f))",
        "import jax\nme = jax.process_index()\n@jax.pmap\n@jax.jit\ndef step(x):\n    return x",
        "import jax\nme = jax.process_index()\np = jax.pmap(f)\ndef step(x):\n    return p(x)",
        "import jax\nme = jax.process_index()\np = jax.pmap(f)\ny = jax.device_get(p(x))",
    ),
    since=(0, 8),
    rewritten_as=MAPS | {Kind.NAME},
)
