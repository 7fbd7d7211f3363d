"""A pmapped `psum` whose result is not used makes processes wait for each other.

The new pmap does not synchronise where the old one did, and barriers that do not match halt the
accelerator. Use `jax.experimental.multihost_utils.sync_global_devices` instead.
"""

import ast
import re
from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.idioms import device_count
from shardlift.source.libraries import REDUCTIONS
from shardlift.source.model import GUIDE, Edit, Kind, Match, Rule
from shardlift.source.outputs import returned_at
from shardlift.source.scopes import FUNCTIONS
from shardlift.source.sites import scope_name
from shardlift.source.statements import delete, delete_with_gap, string

_IMPORT = "from jax.experimental import multihost_utils"
_FILLERS = frozenset(
    f"{module}.{name}" for module in ("jax.numpy", "numpy") for name in ("ones", "zeros")
)


def visit(file: File) -> Iterator[Match]:
    """A pmapped psum of one number per device, in a function for waiting or for counting."""
    for call, mapped in file.mapped_calls:
        results = returned_at(mapped)
        reduces = len(results) == 1 and results[0][0].called(results[0][1]) in REDUCTIONS
        if len(call.args) == 1 and reduces:
            filler = file.definition(call.args[0])
            if file.called(filler) in _FILLERS and _only_waits(file, call, filler):
                edits: tuple[Edit, ...] = ()
                statement = file.index.statement(call)
                counting = _counting(file, call)
                waits = _is_discarded(file, call) and file.many_processes
                if statement and (waits or counting):
                    scope = scope_name(file, statement).rpartition(".")[2] or "barrier"
                    barrier = f"multihost_utils.sync_global_devices({string(file, scope)})"
                    gone = [delete(file, other) for other in counting]
                    edits = (file.replace(statement, barrier), *gone)
                    edits += _without_function(file, call)
                text = "a barrier made with pmap: use sync_global_devices(name)"
                yield Match(call, text, edits, frozenset({_IMPORT} if edits else ()))


def _counting(file: File, call: ast.Call) -> list[ast.stmt]:
    """What stands around `x = pmap(psum)(x)` to count the devices, and does nothing else.

    That is `x = jnp.ones(...)` above it, and `assert x[0] == jax.device_count()` below it.
    """
    statement = file.index.statement(call)
    block = getattr(file.index.parents.get(statement), "body", []) if statement else []
    at = block.index(statement) if statement in block else 0
    around = block[at - 1 : at + 2] if at else []
    if [type(one) for one in around] != [ast.Assign, ast.Assign, ast.Assert]:
        return []
    filler, result, check = around
    names = {file.text(target) for one in (filler, result) for target in one.targets}
    scope = next(p for p in file.index.ancestors(call) if isinstance(p, (*FUNCTIONS, ast.Module)))
    uses = [node for node in file.index.within(scope, ast.Name) if node.id in names]
    lines = range(filler.lineno, (check.end_lineno or 0) + 1)
    is_counted = isinstance(check.test, ast.Compare) and _counts(file, check.test, [*names])
    fills = file.definition(call.args[0]) is filler.value
    return [filler, check] if is_counted and fills and {u.lineno for u in uses} <= {*lines} else []


def _without_function(file: File, call: ast.Call) -> tuple[Edit, ...]:
    """Delete what is called, if nothing else in the project names it."""
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    users = list(file.project.paths_with(name)) if name else []
    if users != [file.path] or len(re.findall(rf"\b{name}\b", file.source.text)) != 2:
        return ()
    definitions = [
        statement
        for statement in file.index.root.body
        if getattr(statement, "name", "") == name
        or [getattr(target, "id", "") for target in getattr(statement, "targets", ())] == [name]
    ]
    return tuple(delete_with_gap(file, definition) for definition in definitions)


def _only_waits(file: File, call: ast.Call, filler: ast.expr) -> bool:
    statement = file.index.statement(call)
    if _is_discarded(file, call) and file.many_processes:
        nodes = (n for n in ast.walk(filler) if isinstance(n, ast.Name | ast.Call))
        return any(device_count(file, node) for node in nodes)
    names = [target.id for target in getattr(statement, "targets", []) if hasattr(target, "id")]
    for parent in file.index.ancestors(call):
        if isinstance(parent, ast.FunctionDef):
            if any(word in parent.name.lower() for word in ("sync", "barrier", "rendezvous")):
                return True
            return any(
                _counts(file, test, names) for test in file.index.within(parent, ast.Compare)
            )
    return False


def _is_discarded(file: File, call: ast.Call) -> bool:
    """Whether a statement does nothing with the result, or only waits for it."""
    node: ast.AST = call
    for parent in file.index.ancestors(call):
        if isinstance(parent, ast.Expr):
            return True
        is_method = isinstance(parent, ast.Attribute) and parent.attr == "block_until_ready"
        waits = file.called(parent) in ("jax.block_until_ready", "jax.device_get")
        if not (is_method or waits or (isinstance(parent, ast.Call) and parent.func is node)):
            return False
        node = parent
    return False


def _counts(file: File, test: ast.Compare, names: list[str]) -> bool:
    """`x[0] == jax.device_count()`, which checks that every device took part."""
    sides = [test.left, *test.comparators]
    counted = any(file.called(side) == "jax.device_count" for side in sides)
    return counted and any(
        isinstance(node, ast.Name) and node.id in names for side in sides for node in ast.walk(side)
    )


RULE = Rule(
    code="SL602",
    summary="a barrier between processes made with a pmapped psum",
    advice="Use jax.experimental.multihost_utils.sync_global_devices('name').",
    reference=f"{GUIDE}#jaxruntimeerror-internal-core-halted-unexpectedly",
    words=("pmap",),
    bad=(
        "import jax\nimport jax.numpy as jnp\ndef sync():\n"
        "    x = jnp.ones(jax.local_device_count())\n"
        "    x = jax.device_get(jax.pmap(lambda v: jax.lax.psum(v, 'i'), 'i')(x))  # SL602\n"
        "    assert x[0] == jax.device_count()",
        "import jax\nimport numpy as np\np = jax.pmap(lambda v: jax.lax.psum(v, 'i'), 'i')\n"
        "if jax.process_count() > 1:\n"
        "    p(np.ones(jax.local_device_count())).block_until_ready()  # SL602",
    ),
    good=(
        "import jax\ndef sync(x):\n    return jax.pmap(lambda v: jax.lax.pmean(v, 'i'), 'i')(x)",
        "import jax\nimport numpy as np\np = jax.pmap(lambda v: v + 1)\np(np.ones(8))",
        "import jax\nimport numpy as np\njax.pmap(lambda v: jax.lax.psum(v, 'i'), 'i')(np.ones(8))",
        "import jax\nimport numpy as np\njax.distributed.initialize()\n"
        "xs = np.ones(jax.local_device_count())\n"
        "print(jax.pmap(lambda v: jax.lax.psum(v, 'i'), 'i')(xs))",
    ),
    since=(0, 8),
    rewritten_as=frozenset({Kind.NAME}),
)
