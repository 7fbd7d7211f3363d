"""States of which some fields stay one per device, while the rest loses its device axis.

Batch statistics that are not averaged, a key per device: such a field must not hold back the
parameters beside it. A state whose fields are known from a recorded run becomes three classes:
itself, the fields that stay apart, and the rest. Everywhere else, fields have the layout of their
tree.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from shardlift.migrate.device_axis.cells import (
    Cell,
    Key,
    Point,
    Role,
    find,
    flatten,
    holds,
    part,
    unify,
)
from shardlift.migrate.device_axis.program import Program
from shardlift.migrate.device_axis.sites import Site
from shardlift.migrate.device_axis.state_forms import StateForm, form_of

REST = "…"  # stands for all fields that do not stay apart
_WHOLE = frozenset({Role.REPLICATE, Role.OUTPUT})
_UNIT = re.compile(r"(\d+)(.*)", re.DOTALL)


@dataclass(frozen=True)
class Candidate:
    """A part of an output that may be a state with fields of several layouts."""

    node: ast.expr  # of its site
    path: tuple[Key, ...]
    whole: frozenset[int]  # the arguments of the site that are the same on all devices


@dataclass(frozen=True, eq=False)
class State:
    """A state: the class of its values, and those of its fields."""

    cell: Cell
    rest: Cell
    fields: Mapping[str, Cell]  # those that stay one per device
    names: tuple[str, ...]  # of all fields that have arrays
    leaves: frozenset[str]  # fields that are one array
    form: StateForm
    candidate: Candidate


def field_of(unit: str) -> tuple[int, str]:
    """The argument that a proof needs, and the field of it, "" for all of it."""
    match = _UNIT.fullmatch(unit)
    assert match is not None
    return int(match[1]), name_of(match[2])


def name_of(key: str) -> str:
    """`.params` and `['params']` are the field params."""
    return key[1:] if key.startswith(".") else str(ast.literal_eval(key[1:-1])) if key else ""


def split_states(
    program: Program, trees: Sequence[Cell], candidates: Iterable[Candidate]
) -> list[Candidate]:
    """Give the fields of states classes of their own; the candidates for which that fails.

    `trees` are the cells that are open: all that are no states are flattened. If a candidate
    fails, the program is to be followed again without it.
    """
    found: dict[int, tuple[Candidate, Cell, set[str]]] = {}
    failed: list[Candidate] = []
    for candidate in candidates:
        site = program.sites[candidate.node]
        cell = _cell_of(site, candidate.path)
        apart = _apart(site, cell, candidate) if cell is not None and cell.is_open else set()
        keys = {name_of(key): key for key in site.fields(candidate.path)}
        if cell is None or not apart or _form(program, cell, keys, apart) is None:
            failed.append(candidate)
        elif id(cell) in found:
            found[id(cell)][2].update(apart)
        else:
            found[id(cell)] = candidate, cell, apart
    roots = [find(tree) for tree in trees]
    for candidate, cell, _ in found.values():
        if any(root is not cell and holds(root, cell) for root in roots):
            failed.append(candidate)
    if failed:
        return failed
    for root in roots:
        if id(find(root)) not in found:
            flatten(root)
    program.states = [_split(program, *one) for one in found.values()]
    return [state.candidate for state in program.states if not _is_apart(state, program.states)]


def _cell_of(site: Site, path: tuple[Key, ...]) -> Cell | None:
    """The class of a part of the output of a site."""
    cell = find(site.results[0]) if site.results else None
    for key in path:
        cell = find(cell.parts[key]) if cell is not None and key in cell.parts else None
    return cell


def _apart(site: Site, cell: Cell, candidate: Candidate) -> set[str]:
    """The fields that stay one per device; none if all do."""
    needs = {name_of(key): need for key, need in site.fields(candidate.path).items()}
    apart = {name for name in needs if name in cell.parts and not _may_be_whole(cell.parts[name])}
    if cell.escapes:
        return set()
    before: set[str] | None = None
    while apart != before:
        before = set(apart)
        for name, need in needs.items():
            units = map(field_of, need or ())
            if need is None or not all(_is_met(site, cell, candidate, apart, *u) for u in units):
                apart.add(name)
    return apart if apart < needs.keys() else set()


def _is_met(
    site: Site, cell: Cell, candidate: Candidate, apart: set[str], position: int, name: str
) -> bool:
    if position in candidate.whole:
        return True
    given = site.given.get(position, [])
    return bool(given) and find(given[0]) is cell and name != "" and name not in apart


def _may_be_whole(field: Cell) -> bool:
    """Whether a field is made and used as one value that is the same on all devices."""
    cells, seen = [find(field)], set[int]()
    while cells:
        cell = cells.pop()
        if cell.escapes or any(made.role not in _WHOLE for made in cell.made):
            return False
        seen.add(id(cell))
        cells += [find(p) for p in cell.parts.values() if id(find(p)) not in seen]
    return True


def _split(program: Program, candidate: Candidate, cell: Cell, apart: set[str]) -> State:
    site = program.sites[candidate.node]
    keys = {name_of(key): key for key in site.fields(candidate.path)}
    fields = {name: flatten(part(cell, name)) for name in keys if name in apart}
    rest = Cell()
    for name, inner in cell.parts.items():
        if name not in apart:
            rest = unify(rest, flatten(inner))
    for name, inner in (*fields.items(), (REST, rest)):
        inner = find(inner)
        inner.made += _points_of_field(cell.made, name)
        inner.uses += _points_of_field(cell.uses, name)
    cell.is_open = False
    cell.parts = {REST: rest}
    cell.parts.update(fields)
    form = _form(program, cell, keys, apart)
    assert form is not None
    paths = {name: (*candidate.path, name) for name in keys}
    leaves = frozenset(name for name in keys if site.structure(paths[name]) == "leaf")
    return State(cell, find(rest), fields, tuple(keys), leaves, form, candidate)


def _form(
    program: Program, cell: Cell, keys: Mapping[str, str], apart: set[str]
) -> StateForm | None:
    is_dict = all(key.startswith("[") for key in keys.values())
    return form_of(program.files, cell, keys, apart, is_dict)


def _points_of_field(points: Iterable[Point], name: str) -> Iterator[Point]:
    """The places that make and use a state, for one of its fields."""
    for point in points:
        yield replace(point, path=(*point.path, name), of_state=True)


def _is_apart(state: State, states: Iterable[State]) -> bool:
    """Whether no value is in two of the classes that have to be different."""
    whole = {id(find(one.rest)) for one in states}
    rows = {id(find(field)) for one in states for field in one.fields.values()}
    cells = {id(find(one.cell)) for one in states}
    mine = {id(find(state.rest)), id(find(state.cell)), *map(id, map(find, state.fields.values()))}
    is_same = find(state.cell) is state.cell and state.cell.collapsed
    return is_same and not mine & (whole & rows | whole & cells | rows & cells)
