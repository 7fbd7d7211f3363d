"""A pmapped function is given to `jit`, `vmap`, `grad` or a loop of `lax`.

pmap is meant to be the outermost transform, and is slower under another one. In a program of many
processes it is worse: the numbers change (SL601).
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlift.check.transforms import mapped_under_transform
from shardlift.source.file import File
from shardlift.source.model import GUIDE, Effect, Match, Rule


def visit(file: File) -> Iterator[Match]:
    """A transform of a pmapped function, or of a function that calls one."""
    if not file.many_processes:
        for node, transform in mapped_under_transform(file):
            yield Match(node, f"a pmapped function runs under {transform}: pmap belongs outside")


RULE = Rule(
    code="SL205",
    name="pmap-under-transform",
    effect=Effect.SLOW,
    summary="pmap inside jit, vmap, grad or a loop of lax",
    advice="Make pmap the outermost transform, or use jax.shard_map inside jit.",
    explain=__doc__,
    reference=f"{GUIDE}#transforming-jax-pmap-e-g-jax-jit",
    visit=visit,
    words=("pmap",),
    bad=(
        "import jax\nstep = jax.jit(jax.pmap(f))  # SL205",
        "import jax\np = jax.pmap(f)\n@jax.jit\ndef step(x):\n    return p(x)  # SL205",
        "import jax\np = jax.pmap(f)\nfinal, _ = jax.lax.scan(lambda c, x: (p(c), 0), c, xs)"
        "  # SL205",
    ),
    good=(
        "import jax\nstep = jax.pmap(jax.jit(f))",
        "import jax\nstep = jax.pmap(jax.grad(f))",
        "import jax\np = jax.pmap(f)\ndef step(x):\n    return p(x)",
        "import jax\np = jax.pmap(f) if n else jax.jit(f)\nq = jax.jit(p)",
        "import jax\np = jax.pmap(f)\ny = jax.tree.map(p, x)",
        "import jax\n@jax.jit\ndef step(x):\n    return f(x)\np = jax.pmap(step)",
        {
            "main.py": "import jax\njax.distributed.initialize()",
            "step.py": "import jax\nstep = jax.jit(jax.pmap(f))",
        },
    ),
)
