"""Calls and the pmapped functions that reach them; indices and what they pick.

Both are decided after all files were visited, once all that a name may stand for is known.
"""

from __future__ import annotations

from shardlift.rewrite.device_axis.cells import (
    EACH,
    Cell,
    CellRole,
    Escape,
    NodePlace,
    Point,
    add_made,
    add_use,
    collapse,
    escape,
    find,
    has_elements,
    part,
    unify,
)
from shardlift.rewrite.device_axis.followed_program import FollowedProgram, Indexed, PendingCall
from shardlift.rewrite.device_axis.global_sites import GlobalSite, OutputKind
from shardlift.rewrite.device_axis.reasons import (
    ALL_FILES,
    CALL_BY_NAME,
    Obstacle,
    ObstacleKind,
    obstacle,
)
from shardlift.source.outputs import is_scalar


def connect(program: FollowedProgram) -> None:
    """Connect calls with the pmapped functions that reach them."""
    rows: list[Indexed] = []
    for indexed in program.indexed:  # a pmapped function may be an element of a tuple
        if has_elements(indexed.base):
            unify(part(indexed.base, indexed.index), indexed.result)
        else:
            rows.append(indexed)
    # What is called and is no pmapped function is unknown, before any call is connected.
    for call in sorted(program.pending, key=lambda call: bool(_sites_of(call))):
        _connect_call(program, call)
    for indexed in rows:
        _pick(indexed)
    for site in program.sites.values():  # what all calls take, and what all return, has one layout
        for cells in (site.results, *site.given.values()):
            for cell in cells[1:]:
                unify(cells[0], cell)
        for result in site.results[:1]:
            _split(site, result)
    for site, cell in program.mapped:  # one that goes where it is not followed does not change
        site.obstacles += [_passed_on(escape) for escape in find(cell).escapes]


def _passed_on(use: Escape) -> Obstacle:
    advice = ALL_FILES if use.outside else CALL_BY_NAME
    return obstacle(ObstacleKind.PASSED_ON, escape=use, advice=advice)


def _sites_of(call: PendingCall) -> set[GlobalSite]:
    made = find(call.function).made
    return {m.site for m in made if m.role is CellRole.MAPPED and m.site is not None}


def _connect_call(program: FollowedProgram, call: PendingCall) -> None:
    sites = _sites_of(call)
    others = [made for made in find(call.function).made if made.role is not CellRole.MAPPED]
    if len(sites) != 1 or others:
        for site in sites:
            why = obstacle(ObstacleKind.SEVERAL, at=call.at)
            if others and others[0].why is not None:
                why = _passed_on(others[0].why)
            site.obstacles.append(why)
        _call_unknown(call)
        return
    (site,) = sites
    site.calls.append(NodePlace(call.at.file, call.call))
    obstacles = {
        ObstacleKind.UNPACKED: not call.plain,
        ObstacleKind.BY_KEYWORD: bool(call.named),
        ObstacleKind.OTHER_NUMBER: site.arguments not in (None, len(call.arguments)),
    }
    site.obstacles += [obstacle(kind, at=call.at) for kind, is_so in obstacles.items() if is_so]
    site.arguments = len(call.arguments)
    for argument in call.named:
        escape(argument, Escape(call.at, "is given by keyword"))
    for position, argument in enumerate(call.arguments):
        if site.in_axis(position) is None:
            escape(argument, Escape(call.at, "is given to every device whole, by in_axes=None"))
        else:
            at = NodePlace(call.at.file, call.nodes[position]) if call.plain else call.at
            # Of a list of trees, the trees: they have the layout.
            leaves = add_use(argument, Point(CellRole.ARGUMENT, at, site=site, position=position))
            site.given.setdefault(position, []).append(leaves)
            program.tracked.append(leaves)
    add_made(call.result, Point(CellRole.OUTPUT, call.at, site=site))
    site.results.append(call.result)
    program.tracked.append(call.result)


def _call_unknown(call: PendingCall) -> None:
    what = call.at.file.brief(call.call.func)
    for argument in (*call.arguments, *call.named):
        escape(argument, Escape(call.at, f"is given to {what}"))
    add_made(call.result, Point(CellRole.ELSEWHERE, call.at))


def _pick(indexed: Indexed) -> None:
    """Take an element or a row, now that all outputs are known."""
    base = find(indexed.base)
    kinds = {made.site.kind(made.path) if made.site is not None else None for made in base.made}
    if not base.collapsed and (has_elements(base) or kinds == {OutputKind.TREE}):
        unify(part(base, indexed.index), indexed.result)
        return
    add_made(indexed.result, Point(CellRole.ELSEWHERE, indexed.at))
    is_array = kinds == {OutputKind.ARRAY} or is_scalar(indexed.at.file, indexed.node)
    if indexed.index == 0 and is_array:
        add_use(base, Point(CellRole.INDEX, indexed.at, indexed.node.value))
    else:
        text = indexed.at.file.brief(indexed.node)
        escape(base, Escape(indexed.at, f"is indexed in `{text}`"))


def _split(site: GlobalSite, result: Cell) -> None:
    """Give each element of an output tuple a class of its own; any other output is one class."""
    result = find(result)
    if EACH in result.parts or (result.collapsed and not result.parts):
        collapse(result)
        return
    if site.kind(()) is not OutputKind.TREE or site.length() is None:
        for key, inner in list(result.parts.items()):
            if isinstance(key, int):
                why = "is unpacked, and it is not known to be a tuple"
                escape(inner, Escape(NodePlace(site.file, site.node), why))
        collapse(result)
    elif any(not isinstance(key, int) for key in result.parts):
        collapse(result)
    else:
        for inner in list(result.parts.values()):
            collapse(inner)
