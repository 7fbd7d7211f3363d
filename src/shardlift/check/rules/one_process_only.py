"""A pmapped function is called by one process only.

It uses the devices of all processes: the other processes must make the same call, in the same
order, or the one that called it waits forever.
"""

import ast
from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.model import MULTI_PROCESS, Match, Rule
from shardlift.source.reaching import guards

_INDEX = frozenset({"jax.process_index", "jax.host_id"})


def visit(file: File) -> Iterator[Match]:
    """Calls of pmapped functions under `if jax.process_index() == 0`."""
    for call, mapped in file.mapped_calls:
        if "devices" in mapped.keywords or "backend" in mapped.keywords:
            continue
        for node, branch in guards(file.index, call):
            if isinstance(node, ast.If) and branch == "body" and _is_one_process(file, node.test):
                yield Match(call, "only one process makes this call: it waits for the others")
                break


def _is_one_process(file: File, test: ast.expr) -> bool:
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return any(_is_one_process(file, value) for value in test.values)
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Eq):
        return False
    return file.called(file.definition(test.left)) in _INDEX


RULE = Rule(
    code="SL606",
    summary="a pmapped function is called by one process only",
    advice="Call it in every process; keep the condition for the code that uses the result.",
    reference=MULTI_PROCESS,
    words=("pmap",),
    bad=(
        "import jax\np = jax.pmap(f)\nif jax.process_index() == 0:\n    y = p(x)  # SL606",
        "import jax\np = jax.pmap(f)\nme = jax.process_index()\nif me == 0 and verbose:\n"
        "    print(p(x))  # SL606",
    ),
    good=(
        "import jax\np = jax.pmap(f)\nif verbose or jax.process_count() == 1:\n    y = p(x)",
        "import jax\np = jax.pmap(f)\nif jax.process_index() == 0:\n    pass\nelse:\n    y = p(x)",
        "import jax\np = jax.pmap(f, devices=jax.local_devices())\n"
        "if jax.process_index() == 0:\n    y = p(x)",
    ),
)
