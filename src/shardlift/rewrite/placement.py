"""Placing values on devices, and flax's way of reading them: each by a function of the same call.

`jax.device_put_sharded` and `device_put_replicated` are gone since JAX 0.10. Each becomes a helper
of the package, or a function of shardlift, and so do flax's `replicate`, `prefetch_to_device` and
`unreplicate` if they raise or gather with the flax that the project allows. A file that imports
flax has its `replicate` instead of a helper. What works, and what is stacked or reshaped by hand,
is left alone.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from functools import partial

from shardlift.rewrite.call_format import CallText, Style
from shardlift.rewrite.goal import Goal
from shardlift.rewrite.meshes import MeshKey, insert_lines
from shardlift.rewrite.names import first_free, flax_utils, is_free, jax_name
from shardlift.source.file import File
from shardlift.source.flax_helpers import Fitness, fitness
from shardlift.source.guarded import is_guarded
from shardlift.source.imports import drop_names, move_names
from shardlift.source.model import Edit, HelperRequest, Kind, Match
from shardlift.source.scopes import bound_name, end
from shardlift.source.values import External

# What newer flax lets its functions name; the helpers have one name for it.
_ONLY_IN_FLAX = "axis_name"
UNREPLICATE = "flax.jax_utils.unreplicate"
_REPLICATED = "jax.device_put_replicated"
_SHARDED = "jax.device_put_sharded"
# What makes an array, whose rows may be listed.
_ARRAY = re.compile(
    r"(numpy|jax\.numpy)\.(array|asarray|ones|zeros|full|arange|linspace|reshape|stack|tile|repeat)$"
    r"|jax\.random\.(split|normal|uniform)$"
)
# Library name -> the name of the helper, and of shardlift's function.
SUBSTITUTES = {
    _SHARDED: "device_put_sharded",
    _REPLICATED: "device_put_replicated",
    "flax.jax_utils.replicate": "replicate",
    "flax.jax_utils.prefetch_to_device": "prefetch_to_device",
    UNREPLICATE: "unreplicate",
}
_ENDINGS = frozenset(path.rpartition(".")[2] for path in SUBSTITUTES)
_match = partial(Match, kind=Kind.PLACEMENT)


def rewrite(file: File, goal: Goal) -> Iterator[Match]:
    """Every use of such a name, through its module or imported from it."""
    for node in file.index.nodes(ast.Attribute):
        path = _through_module(file, node)
        if path is None or not _is_needed(file, path):
            continue
        if not is_guarded(file, node, path) and _fits(file, node, goal):
            yield _attribute(file, node, path, goal)
    for statement in file.index.nodes(ast.ImportFrom):
        paths = {alias: f"{statement.module}.{alias.name}" for alias in statement.names}
        names = {a: p for a, p in paths.items() if p in SUBSTITUTES and _is_needed(file, p)}
        if names and not statement.level and not is_guarded(file, statement, *names.values()):
            yield from _imported(file, statement, names, goal)


def _is_needed(file: File, path: str) -> bool:
    """Whether a function has to be replaced: flax's own may work as they are."""
    of_flax = path.startswith("flax.")
    return not of_flax or fitness(path, file.project.settings) is not Fitness.WORKS


def _through_module(file: File, node: ast.Attribute) -> str | None:
    """The library name of `module.name`, where the module is the library's own."""
    if not isinstance(node.ctx, ast.Load):
        return None
    if node.attr not in _ENDINGS or not isinstance(node.value, (ast.Name, ast.Attribute)):
        return None
    path = f"{file.name(node.value)}.{node.attr}"
    return path if path in SUBSTITUTES else None


def _fits(file: File, node: ast.AST, goal: Goal) -> bool:
    call = file.index.parents.get(node)
    if goal is Goal.SHIM or not isinstance(call, ast.Call) or call.func is not node:
        return True
    return all(keyword.arg != _ONLY_IN_FLAX for keyword in call.keywords)


def _attribute(file: File, node: ast.Attribute, path: str, goal: Goal) -> Match:
    name = SUBSTITUTES[path]
    if goal is Goal.SHIM:
        edit = file.replace(node, f"shardlift.{name}")
        return _match(node, "", (edit,), frozenset({"import shardlift"}))
    if (written := _without_helper(file, node, path)) is not None:
        return written
    if not is_free(file, node, name, path):
        return _match(node, f"{path}: the file has a `{name}` of its own", name=path)
    helpers = frozenset({HelperRequest(name)})
    return _match(node, "", (file.replace(node, name),), helpers=helpers)


def _imported(
    file: File, statement: ast.ImportFrom, names: Mapping[ast.alias, str], goal: Goal
) -> Iterator[Match]:
    if goal is Goal.SHIM:
        to = {alias: ("shardlift", SUBSTITUTES[path]) for alias, path in names.items()}
        yield _match(statement, "", move_names(file, statement, to))
        return
    gone: list[ast.alias] = []
    edits: list[Edit] = []
    helpers: set[HelperRequest] = set()
    calls: list[ast.AST] = []
    imports: set[str] = set()
    for alias, path in names.items():
        uses = _uses(file, bound_name(alias), path)
        name = SUBSTITUTES[path]
        written = [_without_helper(file, use, path) for use in uses]
        replaced = [match for match in written if match is not None]
        if uses and len(replaced) == len(uses):
            gone.append(alias)
            calls += uses
            edits += [edit for match in replaced for edit in match.edits]
            imports |= {line for match in replaced for line in match.imports}
        elif not all(is_free(file, use, name, path) for use in uses):
            yield _match(alias, f"{path}: the file has a `{name}` of its own", name=path)
        elif all(_fits(file, use, goal) for use in uses):
            gone.append(alias)
            helpers.add(HelperRequest(name))
            calls += uses
            edits += [file.replace(use, name) for use in uses if use.id != name]
    if gone:
        new, needed = (*drop_names(file, statement, gone), *edits), frozenset(imports)
        yield _match(statement, "", new, needed, frozenset(helpers), sites=tuple(calls))


def _without_helper(file: File, name: ast.expr, path: str) -> Match | None:
    """What takes the place of a call; None if a helper does."""
    call = file.index.parents.get(name)
    if not isinstance(call, ast.Call) or call.func is not name or len(call.args) != 2:
        return None
    makers = {_REPLICATED: _replicate_of_flax, _SHARDED: _put_array}
    return makers[path](file, name, call) if path in makers and not call.keywords else None


def _put_array(file: File, name: ast.expr, call: ast.Call) -> Match | None:
    """`jax.device_put(x, rows)` for the rows `list(x)` of an array, below a line for `rows`."""
    function, devices = file.index.function_around(call), file.text(call.args[1])
    calls = [other for other in file.index.nodes(ast.Call) if file.called(other) == _SHARDED]
    array = _listed_array(file, call) if all(_listed_array(file, one) for one in calls) else None
    if array is None or isinstance(function, ast.Lambda):
        return None
    near = [one for one in calls if file.index.function_around(one) is function]
    alike = [file.index.statement(one) for one in near if file.text(one.args[1]) == devices]
    words = [word for one in file.index.nodes(ast.Call) for word in one.keywords]
    axes = {file.text(word.value) for word in words if word.arg == "axis_name"}
    style, (jax, imports) = Style.of(file.source.text), jax_name(file)
    axis = axes.pop() if len(axes) == 1 and "".join(axes)[0] in "'\"" else style.string("devices")
    mesh = CallText(f"{jax}.sharding.Mesh", (devices, f"({axis},)"))
    made = (mesh, f"{jax}.sharding.PartitionSpec({axis})")
    rows = first_free(file, ("rows", "device_rows", "rows_2"), set(), filter(None, [function]))
    lines = [(rows, CallText(f"{jax}.sharding.NamedSharding", made))]
    key = MeshKey(function, devices, axis)
    edits = insert_lines(file, key, lines, [*filter(None, alike)], style)
    put = file.replace(call, f"{jax}.device_put({file.text(array)}, {rows})")
    return _match(name, "", (*edits, put), imports) if edits else None


def _listed_array(file: File, call: ast.Call) -> ast.expr | None:
    """The array whose rows `device_put_sharded` is given as a list."""
    shards = call.args[0] if len(call.args) == 2 else None
    is_listed = file.called(shards) in ("builtins.list", "builtins.tuple")
    if not isinstance(shards, ast.Call) or len(shards.args) != 1 or not is_listed:
        return None
    made = array = shards.args[0]
    while isinstance(made := file.definition(made), ast.Call) and file.called(made) is None:
        if not isinstance(made.func, ast.Attribute) or made.func.attr not in ("reshape", "astype"):
            break
        if made.func.attr == "reshape":
            return array  # nothing else has this method
        made = made.func.value
    return array if _ARRAY.match(file.called(made) or "") else None


def _replicate_of_flax(file: File, name: ast.expr, call: ast.Call) -> Match | None:
    """`jax_utils.replicate(x, devices)` for a call of `device_put_replicated`, if flax is there."""
    if fitness("flax.jax_utils.replicate", file.project.settings) is not Fitness.WORKS:
        return None
    if (known := flax_utils(file, call)) is None:
        return None
    utils, imports = known
    edits = [file.replace(name, f"{utils}.replicate")]
    tree, devices = call.args
    if isinstance(devices, ast.Call) and file.text(devices).endswith("local_devices()"):
        edits.append(Edit(file.stretch(*end(tree), *end(devices)), ""))
    return _match(name, "", tuple(edits), imports)


def _uses(file: File, name: str, path: str) -> list[ast.Name]:
    nodes = (node for node in file.index.nodes(ast.Name) if node.id == name)
    return [n for n in nodes if isinstance(n.ctx, ast.Load) and External(path) in file.values(n)]
