"""Calls and the pmapped functions that reach them; indices and what they pick.

Both are decided after all files were visited, once all that a name may stand for is known.
"""

from __future__ import annotations

from dataclasses import replace

from shardlift.migrate.device_axis.cells import (
    EACH,
    Cell,
    Escape,
    Padding,
    Place,
    Point,
    Role,
    add_made,
    add_use,
    collapse,
    escape,
    find,
    part,
    unify,
)
from shardlift.migrate.device_axis.failures import blame
from shardlift.migrate.device_axis.keywords import by_position
from shardlift.migrate.device_axis.leaves import trace_leaf
from shardlift.migrate.device_axis.program import Indexed, PendingCall, Program
from shardlift.migrate.device_axis.reasons import Change, Reason
from shardlift.migrate.device_axis.sites import Site
from shardlift.source.outputs import is_scalar, output_of


def connect(program: Program) -> None:
    """Connect calls with the pmapped functions that reach them."""
    rows = [indexed for indexed in program.indexed if not _pick_element(indexed)]
    # What is called and is no pmapped function is unknown, before any call is connected.
    known = [call for call in program.pending if _sites_of(call)]
    for call in program.pending:
        if not _sites_of(call):
            with blame(call.at.file):
                _call_unknown(call)
    for call in known:
        with blame(call.at.file):
            _connect_call(program, call)
    for indexed in rows:
        with blame(indexed.at.file):
            _pick(program, indexed)
    for site in program.sites.values():
        with blame(site.file):
            _join_calls(site)
    for site, cell in program.mapped:  # one that goes where it is not followed stays as it is
        site.obstacles += [_passed_on(said) for said in find(cell).escapes]


def _join_calls(site: Site) -> None:
    """Give what all calls take, and what all return, one layout each."""
    for cells in (site.results, *site.given.values()):
        for cell in cells[1:]:
            unify(cells[0], cell)
    for result in site.results[:1]:
        _split(site, result)


def _passed_on(said: Escape) -> str:
    change = Change.ALL_FILES if said.outside else Change.CALL_BY_NAME
    return str(Reason(f"the mapped function {said}", change))


def _sites_of(call: PendingCall) -> set[Site]:
    made = find(call.function).made
    return {m.site for m in made if m.role is Role.MAPPED and m.site is not None}


def _connect_call(program: Program, call: PendingCall) -> None:
    sites = _sites_of(call)
    points = find(call.function).made
    others = [made for made in points if made.role is not Role.MAPPED]
    paddings = {made.padding for made in points}
    if len(sites) > 1 or others or len(paddings) > 1:
        for site in sites:
            why = f"several functions may be called at {call.at}: call each by its own name"
            if others and others[0].why is not None:
                why = _passed_on(others[0].why)
            site.obstacles.append(why)
        _call_unknown(call)
        return
    (site,), (padding,) = sites, paddings
    named = padding is None and by_position(site, call)
    names = tuple(keyword.arg or "" for keyword in call.call.keywords) if named else ()
    if site.calls and site.named != names:
        site.obstacles.append(
            f"it is called with other keyword arguments at {call.at}: give all by position"
        )
    if named:
        nodes = [keyword.value for keyword in call.call.keywords]
        call = replace(
            call, arguments=call.arguments + call.named, nodes=call.nodes + nodes, named=[]
        )
        site.named = names
    site.calls.append((call.at.file, call.call))
    if not call.plain:
        site.obstacles.append(
            f"it is called with unpacked arguments at {call.at}: name each of them"
        )
    if site.arguments not in (None, len(call.arguments)):
        site.obstacles.append(
            f"it is called with another number of arguments at {call.at}: always give all"
        )
    site.arguments = len(call.arguments)
    _connect_arguments(program, site, call, padding)
    _connect_named(site, call, padding)
    _connect_result(program, site, call, padding)


def _connect_arguments(
    program: Program, site: Site, call: PendingCall, padding: Padding | None
) -> None:
    for position, argument in enumerate(call.arguments):
        if padding is not None and position not in padding.passed_on:
            escape(argument, Escape(call.at, "is padded"))
            rows = add_made(Cell(), Point(Role.ROWS, call.at))
            site.given.setdefault(position, []).append(rows)
        elif position in site.static:
            escape(argument, Escape(call.at, "is given as a static argument"))
        elif site.in_axis(position) is None:
            escape(argument, Escape(call.at, "is given to every device whole, by in_axes=None"))
        else:
            at = Place(call.at.file, call.nodes[position]) if call.plain else call.at
            # Of a list of trees, the trees: they have the layout.
            leaves = add_use(argument, Point(Role.ARGUMENT, at, site=site, position=position))
            site.given.setdefault(position, []).append(leaves)
            program.tracked.append(leaves)


def _connect_named(site: Site, call: PendingCall, padding: Padding | None) -> None:
    for keyword, argument in zip(call.call.keywords, call.named, strict=not site.named):
        if padding is None or keyword.arg != "min_device_batch":
            site.has_keywords = True
            escape(argument, Escape(call.at, "is given by keyword"))


def _connect_result(
    program: Program, site: Site, call: PendingCall, padding: Padding | None
) -> None:
    result = call.result
    if padding is not None and not padding.returns_rows:
        add_made(call.result, Point(Role.ELSEWHERE, call.at))
        result = Cell()
        escape(result, Escape(call.at, "is cut to the size of the batch"))
    add_made(result, Point(Role.OUTPUT, call.at, site=site))
    site.results.append(result)
    program.tracked.append(result)


def _call_unknown(call: PendingCall) -> None:
    what = call.at.file.brief(call.call.func)
    for argument in (*call.arguments, *call.named):
        escape(argument, Escape(call.at, f"is given to {what}"))
    add_made(call.result, Point(Role.ELSEWHERE, call.at))


def _has_elements(cell: Cell) -> bool:
    return EACH in cell.parts or any(isinstance(key, int) for key in cell.parts)


def _pick_element(indexed: Indexed) -> bool:
    """Take an element of what is known to be a tuple or a list; False if it is not."""
    base = find(indexed.base)
    if not _has_elements(base):
        return False
    unify(part(base, indexed.index), indexed.result)
    return True


def _pick(program: Program, indexed: Indexed) -> None:
    """Take an element or a row, now that all outputs are known."""
    base = find(indexed.base)
    outputs = [made for made in base.made if made.role is Role.OUTPUT]
    kinds = {made.site.structure(made.path) for made in outputs if made.site is not None}
    is_tree = kinds == {"tree"} and len(outputs) == len(base.made)
    if not base.collapsed and (_has_elements(base) or is_tree):
        unify(part(base, indexed.index), indexed.result)
        return
    add_made(indexed.result, Point(Role.ELSEWHERE, indexed.at))
    if indexed.index == 0 and _is_row(program, indexed):
        add_use(base, Point(Role.INDEX, indexed.at, indexed.node.value))
    else:
        text = indexed.at.file.brief(indexed.node)
        escape(base, Escape(indexed.at, f"is indexed in `{text}`"))


def _is_row(program: Program, indexed: Indexed) -> bool:
    """Whether the indexed value can only be an array."""
    file = indexed.at.file
    if is_scalar(file, indexed.node):
        return True
    output = output_of(file, indexed.node.value)
    site = program.sites.get(output.mapped.node) if output is not None else None
    if output is not None and site is not None:
        return site.structure(output.path) == "leaf"
    found = trace_leaf(file, indexed.node.value)
    if found is None:
        return False
    call, path = found
    sites = [one for one in program.sites.values() if (file, call) in one.calls]
    return len(sites) == 1 and sites[0].structure(path) == "leaf"


def _split(site: Site, result: Cell) -> None:
    """Give each element of an output tuple a class of its own; any other output is one class."""
    result = find(result)
    is_whole = EACH in result.parts or result.collapsed or result.uses
    if site.has_mixed_outputs and is_whole:
        why = "is used as a whole, and its out_axes are not all the same"
        escape(collapse(result), Escape(Place(site.file, site.node), why))
    if EACH in result.parts or (result.collapsed and not result.parts):
        collapse(result)
        return
    if site.structure(()) != "tree" or site.length() is None:
        for key, inner in list(result.parts.items()):
            if isinstance(key, int):
                why = "is unpacked, and it is not known to be a tuple"
                escape(inner, Escape(Place(site.file, site.node), why))
        collapse(result)
    elif any(not isinstance(key, int) for key in result.parts):
        collapse(result)
    else:
        for inner in list(result.parts.values()):
            collapse(inner)
