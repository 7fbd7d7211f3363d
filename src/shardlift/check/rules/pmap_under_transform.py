"""A pmapped function runs inside `jit`, `vmap`, `grad` or a loop of `lax`.

pmap should be the outermost transform, and is slower inside another one. In a program of many
processes, the numbers change too (SL601).
"""

from collections.abc import Iterator

from shardlift.check.transforms import matches_under_transform
from shardlift.source.file import File
from shardlift.source.model import GUIDE, MAPS, Kind, Level, Match, Rule


def visit(file: File) -> Iterator[Match]:
    """Transforms of pmapped functions, or of functions that call one."""
    if not file.many_processes:
        text = "a pmapped function inside {}: pmap should be outermost"
        yield from matches_under_transform(file, text)


RULE = Rule(
    code="SL205",
    level=Level.SLOW,
    summary="pmap inside jit, vmap, grad or a loop of lax",
    advice="Make pmap the outermost transform, or use jax.shard_map inside jit.",
    reference=f"{GUIDE}#transforming-jax-pmap-e-g-jax-jit",
    words=("pmap",),
    bad=(
        "import jax\nstep = jax.jit(jax.pmap(f))  # SL205",
        "import jax\np = jax.pmap(f)\n@jax.jit\ndef step(x):\n    return p(x)  # SL205",
        "import jax\np = jax.pmap(f)\nfinal, _ = jax.lax.scan(lambda c, x: (p(c), 0), c, xs)"
        "  # SL205",
    ),
    good=(
        "import jax\nstep = jax.pmap(jax.grad(f))",
        "import jax\np = jax.pmap(f) if n else jax.jit(f)\nq = jax.jit(p)",
        "import jax\n@jax.jit\ndef step(x):\n    return f(x)\np = jax.pmap(step)",
        {
            "main.py": "import jax\nimport step\njax.distributed.initialize()",
            "step.py": "import jax\nstep = jax.jit(jax.pmap(f))",
        },
    ),
    rewritten_as=MAPS | {Kind.NAME},
)
