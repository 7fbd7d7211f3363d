"""An attribute or method that arrays, compiled functions or variables of flax no longer have.

pmap programs used `.device_buffers` to read the shards of an output one by one: JAX 0.4.27 removed
it with the method `.device()`. `cost_analysis()` of a compiled function has been a dict since JAX
0.5, no longer a list of one, and `init` returns plain dicts since flax 0.7, no FrozenDict.
"""

import ast
import re
from collections.abc import Iterator

from shardlift.check.renames import spell_successor
from shardlift.source.file import File
from shardlift.source.guarded import is_guarded
from shardlift.source.model import CHANGELOG, Edit, Kind, Match, Rule
from shardlift.source.removed_names import Removed
from shardlift.source.scopes import end, last_name
from shardlift.source.statements import newline
from shardlift.source.values import External, Instance, Known, Output, Result

_SHARDS = "[s.data for s in x.addressable_shards], and s.device for its device"
_INSTEAD = {"device_buffer": ".addressable_data(0)", "device_buffers": _SHARDS}


def visit(file: File) -> Iterator[Match]:
    """Uses of any value that is not an object of the project."""
    for name, find in _FIND.items():
        for node in file.index.attributes[name]:
            own = any(isinstance(value, (Instance, Known)) for value in file.values(node.value))
            if not own and not is_guarded(file, node, node.attr):
                yield from find(file, node)


def _buffer(file: File, node: ast.Attribute) -> Iterator[Match]:
    instead = _INSTEAD[node.attr]
    if isinstance(file.only(node.value), Output):  # its buffers had no axis of devices
        instead = instead.replace("s.data", "s.data[0]")
    edits = tuple(_devices_of_shards(file, node))
    yield Match(node, f".{node.attr} was removed in JAX 0.4.27: use {instead}", edits)


def _devices_of_shards(file: File, node: ast.Attribute) -> Iterator[Edit]:
    """For `[b.device() for b in x.device_buffers]`, which asks for nothing else."""
    loop, inside = file.index.parents[node], [*file.index.ancestors(node)][1]
    if isinstance(loop, ast.comprehension) and loop.iter is node:
        name = last_name(loop.target)
        uses = [n for n in ast.walk(inside) if isinstance(n, ast.Name) and n.id == name]
        calls = (n for n in ast.walk(inside) if isinstance(n, ast.Call))
        asked = [call for call in calls if file.text(call) == f"{name}.device()"]
        if len(uses) == len(asked) + 1:  # and the target
            yield Edit(file.stretch(*end(node.value), *end(node)), ".addressable_shards")
            yield from (Edit(file.stretch(*end(c.func), *end(c)), "") for c in asked)


def _device(file: File, node: ast.Attribute) -> Iterator[Match]:
    call, made = file.index.parents[node], file.only(node.value)
    is_called = isinstance(call, ast.Call) and call.func is node and not call.args
    if is_called and isinstance(made, Result) and made.path.startswith("jax."):
        text = ".device() was removed in JAX 0.4.27: use the attribute .device"
        edit = Edit(file.stretch(*end(node), *end(call)), "")
        yield Match(call, text, (edit,), name="jax.Array.device()")


def _costs(file: File, node: ast.Attribute) -> Iterator[Match]:
    call, compiled = file.index.parents[node], file.definition(node.value)
    is_sure = isinstance(compiled, ast.Call) and last_name(compiled.func) == "compile"
    for use in file.index.nodes(ast.Subscript) if file.target >= (0, 5) else ():
        is_first = isinstance(use.slice, ast.Constant) and use.slice.value == 0
        asked = (f"{ask}({file.text(use.value)}" in file.source.text for ask in _ASK)
        if is_first and file.definition(use.value) is call and not any(asked):
            text = "cost_analysis() of what is compiled is a dict since JAX 0.5: take out the [0]"
            edits = (Edit(file.stretch(*end(use.value), *end(use)), ""),) if is_sure else ()
            yield Match(use, text, edits, name="jax.stages.Compiled.cost_analysis()")


def _of_frozen_dict(file: File, node: ast.Attribute) -> Iterator[Match]:
    """`x.unfreeze()`, `rest, y = x.pop("params")` and `x.copy({…})`, which a FrozenDict has."""
    call, frozen = file.index.parents[node], file.only(node.value)
    is_plain = file.project.settings.usable_flax >= (0, 7) and "flax" in file.source.text
    tests = (a.test for a in file.index.ancestors(node) if isinstance(a, ast.If | ast.IfExp))
    if any("isinstance(" in file.text(test) for test in tests):
        is_plain = False  # it asks for a FrozenDict
    if isinstance(frozen, External | Result) and frozen.path.startswith("flax."):
        is_plain = False
    if isinstance(file.definition(node.value), ast.Dict):
        is_plain = False  # no variables of flax, though what is taken out may be a pair
    if not is_plain or not isinstance(call, ast.Call) or not _is_of_frozen_dict(file, node, call):
        return
    function = f"flax.core.{node.attr}"
    row = Removed(f"flax.FrozenDict.{node.attr}", (0, 7), function, same=True)
    named, imports = spell_successor(file, node, row)
    is_old = node.attr != "unfreeze" and file.project.settings.flax < (0, 7)
    if is_old or "#" in file.text(call):  # the flax that is required may not have the function
        named, imports = (), frozenset()
    given: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    line = given[0].lineno if given else 0
    gap = f"{newline(file)}{file.margin(line)}" if line > (node.end_lineno or 0) else ""
    listed = gap + ", ".join(map(file.text, (node.value, *given)))
    edits = tuple(file.replace(call, f"{edit.replacement}({listed})") for edit in named)
    text = f".{node.attr}() of variables was removed in flax 0.7, where they are dicts"
    yield Match(call, f"{text}: use {function}, which takes both", edits, imports)


def _is_of_frozen_dict(file: File, method: ast.Attribute, call: ast.Call) -> bool:
    """Whether a call gives and takes what that method does, and no other of the name."""
    parent, given = file.index.parents[call], [*call.args, *call.keywords]
    first = given[0] if given and call.func is method else None
    if method.attr == "unfreeze":
        return not given and not isinstance(parent, ast.Expr)
    if method.attr == "copy":
        return isinstance(first, ast.Dict) or getattr(first, "arg", "") == "add_or_replace"
    pair = parent.targets[0] if isinstance(parent, ast.Assign) else None
    is_pair = isinstance(pair, ast.Tuple) and len(pair.elts) == 2
    return is_pair and len(given) == 1 and getattr(first, "value", "") in ("params", "batch_stats")


_ASK = ("isinstance", "type")
_FIND = {
    **dict.fromkeys(_INSTEAD, _buffer),
    "device": _device,
    "cost_analysis": _costs,
    **dict.fromkeys(("unfreeze", "pop", "copy"), _of_frozen_dict),
}
RULE = Rule(
    code="SL110",
    summary="an attribute or method that JAX or flax removed",
    advice="Change the code as the message says.",
    reference=CHANGELOG,
    words=("device_buffer", ".device()", "cost_analysis", "flax"),
    pattern=re.compile(
        rb"device_buffer|\.device\(\)|cost_analysis\(\)|\.unfreeze\(\)|=.*\.pop\(|\.copy\(\s*[{a]"
    ),
    bad=(
        "first = jax.tree.map(lambda x: x.device_buffers[0], state)  # SL110",
        "import jax\nd = jax.device_put(array.device_buffer).device()  # SL110  # SL110",
        "import jax\ncosts = jax.jit(f).lower(x).compile().cost_analysis()[0]  # SL110\n"
        "def f(compiled):\n    costs = compiled.cost_analysis()\n    return costs[0]  # SL110",
        "import flax\nparams = m.init(key, x)['params'].unfreeze()  # SL110\n"
        "state, params = variables.pop('params')  # SL110\n"
        "variables = variables.copy({'cache': cache})  # SL110",
    ),
    good=(
        "import jax\nclass A:\n    def f(self):\n        return self.device_buffer",
        "import jax\nif hasattr(x, 'device_buffer'):\n    y = x.device_buffer",
        "import jax\nd = model.device()",
        "import jax\ncosts = f.cost_analysis()\nif isinstance(costs, list):\n    costs = costs[0]",
        "from flax.core import freeze, FrozenDict\nparams = freeze(x)\ny = params.unfreeze()\n"
        "if isinstance(x, FrozenDict):\n    x = x.unfreeze()",
        "import flax\nparts = {'params': (p, q)}\np, q = parts.pop('params')",
        "import flax\nmodel.unfreeze()\nparams = variables.pop('params')\ny = x.copy(order)",
    ),
    since=(0, 4, 27),
    rewritten_as=frozenset({Kind.NAME}),
)
