"""pmaps inside one another: those that are one call in another, and those that cannot be told."""

import ast
from collections import defaultdict
from collections.abc import Iterator

from shardlift.check.rules import all_rules
from shardlift.rewrite.options import Options, read_options
from shardlift.source.file import File, remembered
from shardlift.source.mentions import OWN
from shardlift.source.model import Kind, Match
from shardlift.source.scopes import last_name
from shardlift.source.sites import Role, surely_mapped
from shardlift.source.values import Known

_CONTAINERS = (ast.Dict, ast.List, ast.Tuple, ast.DictComp, ast.ListComp)
_ADDS = frozenset({"append", "setdefault"})
CALLED_INSIDE = (
    "a pmapped function is called inside a pmapped one: put both axes into one shard_map "
    "over a mesh of two axes by hand"
)

MAPPED_TWICE = (
    "a pmapped function is pmapped again: write the two as one expression, "
    "pmap(pmap(f, 'j'), 'i'), and they become one shard_map"
)
TWICE_BY_HAND = (
    "a pmapped function is pmapped again, with static arguments, in_axes or out_axes: put both "
    "axes into one shard_map over a mesh of two axes by hand"
)
_NOT_NESTED = {"in_axes", "out_axes", "static_broadcasted_argnums"}  # `forms` refuses them


def levels_of(file: File, call: ast.Call) -> tuple[list[Options], list[ast.expr]]:
    """The pmaps of a call, outermost first, as long as each maps the next one itself.

    Also the names of pmap that are inside: they are dealt with.
    """
    levels, inside = [read_options(file, call)], list[ast.expr]()
    while isinstance(inner := levels[-1].operand, ast.Call) and file.name(inner.func) in OWN:
        inside.append(inner.func)
        levels.append(read_options(file, inner))
    return levels, inside


def tangled(file: File) -> dict[ast.AST, str]:
    """Sites that map, or call, what another site has mapped; and that one; with the reason.

    One of them rewritten and the other not would be of no use.
    """
    inner: dict[ast.Call, list[ast.AST]] = {c: [m.node] for c, m in file.mapped_calls}
    inner |= _calls_of_elements(file)
    reasons: dict[ast.AST, str] = {}
    keywords = {site.node: site.keywords.keys() for site in file.sites}
    for site in file.sites:
        operand = site.operand
        if isinstance(operand, (ast.Name, ast.Attribute)) and site.role is Role.MAP:
            mapped = surely_mapped(file, operand)
            if mapped is not None:
                given = site.keywords.keys() | keywords.get(mapped.node, frozenset())
                reason = TWICE_BY_HAND if given & _NOT_NESTED else MAPPED_TWICE
                reasons[site.node] = reasons[mapped.node] = reason
                continue
        function = site.function
        if site.role is not Role.MAP or function is None or function.file is not file:
            continue
        for call in _calls_from(file, function.node):
            for node in inner.get(call, ()):
                if node is not site.node:
                    reasons[site.node] = reasons[node] = CALLED_INSIDE
    return reasons


def _calls_from(file: File, function: ast.AST) -> Iterator[ast.Call]:
    """The calls in a function, and in the functions of the file that it calls."""
    reached = [function]
    for caller in reached:
        for call in file.index.calls_in[caller]:
            yield call
            value = file.only(call.func)
            if isinstance(value, Known) and value.file is file and value.node not in reached:
                reached.append(value.node)


def _calls_of_elements(file: File) -> dict[ast.Call, list[ast.AST]]:
    """Calls such as `steps["train"](x)`, with the sites whose functions are put into `steps`."""
    held: dict[str, list[ast.AST]] = defaultdict(list)
    for site in file.sites if file.mentions else ():
        for name in _holders(file, site.node) if site.role is Role.MAP else ():
            held[name].append(site.node)
    calls = file.index.nodes(ast.Call) if held else ()
    elements = {c: c.func.value for c in calls if isinstance(c.func, ast.Subscript)}
    return {call: held[_holder(of)] for call, of in elements.items() if _holder(of) in held}


def _holders(file: File, node: ast.AST) -> list[str]:
    """The names of the dict, list or tuple that an expression is put into, if it is."""
    inside = False
    for parent in file.index.ancestors(node):
        if isinstance(parent, (ast.Assign, ast.AnnAssign)):
            targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
            items = [t.value for t in targets if isinstance(t, ast.Subscript)]
            return [_holder(target) for target in (targets if inside else items)]
        if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Attribute) and not inside:
            return [_holder(parent.func.value)] if parent.func.attr in _ADDS else []
        if not isinstance(parent, _CONTAINERS):
            return []
        inside = True
    return []


def _holder(node: ast.expr) -> str:
    while isinstance(node, ast.Subscript):
        node = node.value
    return last_name(node)


def is_repair(file: File, match: Match) -> bool:
    """Whether `fix` makes a change, or says why it does not.

    It makes all except for those of a pmap that jax.pmap of the target maps rightly.
    """
    return match.kind not in (Kind.SITE, Kind.VALUE) or match.node in _nested(file)


@remembered
def _nested(file: File) -> set[ast.AST]:
    """The sites of pmaps inside one another, if the target refuses them."""
    rule = all_rules()["SL204"]
    if file.target < rule.since or not file.mentions:
        return set()
    found = {match.node for match in rule.visit(file)}
    return {*found, *tangled(file)} if found else found
