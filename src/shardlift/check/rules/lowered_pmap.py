"""A pmapped function is lowered ahead of time in a program of many processes.

What `.lower(…).compile()` gives wants global arrays and returns global arrays: the conversion
from and to this process's own part, which a plain call does, is missing. It raises TypeError.
"""

import ast
from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.model import GUIDE, MAPS, Match, Rule
from shardlift.source.sites import surely_mapped


def visit(file: File) -> Iterator[Match]:
    """`.lower(…)` of a function that is certainly pmapped."""
    for call in file.index.nodes(ast.Call):
        method = call.func if isinstance(call.func, ast.Attribute) else None
        mapped = surely_mapped(file, method.value) if method and method.attr == "lower" else None
        if mapped is not None and file.many_processes:
            text = "in many processes a lowered pmap takes and returns global arrays"
            yield Match(call, text, sites=(mapped.node,) if mapped.file is file else ())


RULE = Rule(
    code="SL603",
    summary=".lower() of a pmapped function in a program of many processes",
    advice="Convert around it with multihost_utils.host_local_array_to_global_array and back.",
    reference=f"{GUIDE}#using-jax-stages-lowered-returned-by-jax-pmap-f-lower-args",
    words=("pmap",),
    bad=(
        "import jax\nn = jax.process_count()\ncompiled = jax.pmap(f).lower(x).compile()  # SL603",
        "import jax\njax.distributed.initialize()\np = jax.pmap(f)\nlow = p.lower(x)  # SL603",
    ),
    good=(
        "import jax\ncompiled = jax.pmap(f).lower(x).compile()",
        "import jax\nn = jax.process_count()\np = jax.pmap(f)\nname = text.lower()",
        "import jax\nn = jax.process_count()\np = jax.pmap(f) if n else g\np.lower(x)",
    ),
    since=(0, 8),
    rewritten_as=MAPS,
)
