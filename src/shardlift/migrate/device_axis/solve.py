"""The layout of each class of values: whole, global, or stacked as before; and the reason.

A class keeps its device axis unless every place that makes or uses its values can be rewritten,
and every output in it is proven to be the same on all devices. Taking back the layout of one class
may take away the proof of another, so this is repeated until nothing changes.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from shardlift.capture import schema
from shardlift.migrate.device_axis.cells import Cell, Escape, Key, Place, Point, Role, find
from shardlift.migrate.device_axis.checkpoints import advice
from shardlift.migrate.device_axis.failures import blame, or_failure
from shardlift.migrate.device_axis.program import Program
from shardlift.migrate.device_axis.reasons import Change, Reason
from shardlift.migrate.device_axis.recordings import Doubt
from shardlift.migrate.device_axis.reduced import is_reduced
from shardlift.migrate.device_axis.sites import Site
from shardlift.migrate.device_axis.spelling import in_the_way
from shardlift.migrate.device_axis.states import REST, State, field_of, name_of


class Layout(StrEnum):
    """How the values of a class are laid out after the migration."""

    WHOLE = "whole"  # no device axis: P()
    GLOBAL = "global"  # the rows of all devices in one axis: P(axis)
    STACKED = "stacked"  # one row per device, as pmap has it
    MIXED = "mixed"  # a state: some of its fields are stacked, the others are whole


@dataclass(frozen=True)
class Finding:
    """Something that keeps its device axis, and why."""

    at: Place
    text: str


@dataclass
class Decision:
    """The layouts of all classes, by the `id` of the class."""

    layouts: dict[int, Layout] = field(default_factory=dict)
    reasons: dict[int, Reason] = field(default_factory=dict)
    classes: dict[int, Cell] = field(default_factory=dict)
    states: dict[int, State] = field(default_factory=dict)
    left: Mapping[Site, str] = field(default_factory=dict)  # sites that are not to change
    apart: Reason | None = None  # why each of many processes has arrays of its own
    # Whether the text of a site alone proves a part of its output the same on all devices.
    proves: Callable[[Decision, Site, tuple[Key, ...]], bool] = lambda *_: False

    def obstacle(self, site: Site) -> str | None:
        """Why the arrays of a site have to stay as they are."""
        return self.left.get(site) or next(iter(site.obstacles), None)

    def of(self, cell: Cell) -> Layout:
        """The layout of a value."""
        return self.layouts.get(id(find(cell)), Layout.STACKED)

    def state(self, site: Site, position: int) -> State | None:
        """The state that an argument of a pmapped function is, if its fields are laid out apart."""
        if self.argument(site, position) is not Layout.MIXED:
            return None
        return self.states[id(find(site.given[position][0]))]

    def returned_states(self, site: Site) -> list[State | None]:
        """For each of `outputs` the state that it is, if its fields are laid out apart."""
        layouts, cell = self.outputs(site), find(site.results[0])
        is_one = len(layouts) == 1 and site.length() is None
        cells = [cell] if is_one else [cell.parts.get(k) for k in range(len(layouts))]
        return [
            self.states[id(find(one))] if layout is Layout.MIXED and one is not None else None
            for layout, one in zip(layouts, cells, strict=True)
        ]

    def argument(self, site: Site, position: int) -> Layout:
        """The layout of an argument of a pmapped function; whole if in_axes is None."""
        if site.in_axis(position) is None or position in site.static:
            return Layout.WHOLE
        return self.of(site.given[position][0]) if position in site.given else Layout.STACKED

    def outputs(self, site: Site) -> list[Layout]:
        """The layouts of the elements of an output tuple; of any other output, its layout."""
        cell, length = find(site.results[0]), site.length()
        if length is None or (cell.collapsed and not site.has_mixed_outputs):
            return [Layout.WHOLE if site.out_axis((0,)) is None else self.of(cell)]
        return [self._element(site, cell, number) for number in range(length)]

    def _element(self, site: Site, cell: Cell, number: int) -> Layout:
        if site.out_axis((number,)) is None:
            return Layout.WHOLE
        if cell.collapsed:
            return self.of(cell)
        if number in cell.parts:
            return self.of(cell.parts[number])
        # Nobody reads it, unless somebody has the whole tuple.
        unproven = cell.escapes or cell.uses or self.unproven(site, (number,))
        return Layout.STACKED if unproven else Layout.WHOLE

    def unproven(self, site: Site, path: tuple[Key, ...]) -> Reason | None:
        """Why an output is not certain to be the same on all devices, given the layouts so far."""
        proofs = site.proofs(path)
        if not proofs:
            proven = is_reduced(site, path) or self.proves(self, site, path)
            return None if proven else _without_facts(site)
        whole = {k for k in range(site.arguments or 0) if self.argument(site, k) is Layout.WHOLE}
        for proof in proofs:
            if proof.needs is None or not set(proof.needs) <= whole:
                if proof.why:
                    why = f"{proof.leaf} is not proven to be the same on all devices: {proof.why}"
                    return _apart(why, proof, proofs)
                missing = ", ".join(map(str, sorted(set(proof.needs or ()) - whole)))
                why = f"{proof.path} is the same on all devices only if argument {missing} is"
                return Reason(why, Change.OTHER_ARGUMENT)
        return None

    def unproven_field(self, made: Point) -> Reason | None:
        """Why a field of a state, or all that do not stay apart, may differ between devices."""
        assert made.site is not None
        *outer, name = made.path
        path, apart = tuple(outer), self._apart(made.site, tuple(outer))
        needs = made.site.fields(path)
        for key, need in needs.items():
            own = name_of(key)
            is_meant = own == name if name != REST else own not in apart
            if is_meant and not self._is_met(made.site, need):
                return _differs(made.site, path, key)
        return None if needs else _without_facts(made.site)

    def _apart(self, site: Site, path: tuple[Key, ...]) -> Collection[str]:
        """The fields that stay apart of the state that a part of an output is."""
        for state in self.states.values():
            if any(made.site is site and made.path == path for made in state.cell.made):
                return state.fields.keys()
        return ()

    def _is_met(self, site: Site, need: tuple[str, ...] | None) -> bool:
        """Whether the arguments, or fields of them, that a proof needs are whole."""
        if need is None:
            return False
        for position, name in map(field_of, need):
            state = self.state(site, position)
            is_whole = self.argument(site, position) is Layout.WHOLE
            if not is_whole and (state is None or not name or name in state.fields):
                return False
        return True

    def may_be_plain(self, site: Site) -> bool:
        """Whether a pmapped function can be mapped over all devices, as a run showed."""
        is_called = site.arguments is not None and bool(site.results)
        return is_called and self.obstacle(site) is None and site.ran_on_all_devices

    def is_changed(self, site: Site) -> bool:
        """Whether a pmapped function takes or gives anything but stacked arrays."""
        if self.obstacle(site) is not None or not site.results:
            return False
        cell = find(site.results[0])
        read = [self.of(part) for part in (cell.parts.values() if not cell.collapsed else [cell])]
        inputs = [self.argument(site, position) for position in site.given]
        return any(layout is not Layout.STACKED for layout in (*inputs, *read))


def _apart(why: str, proof: schema.Proof, proofs: Sequence[schema.Proof]) -> Reason:
    """A reason that names the part of an output that differs, if it is only a part."""
    varying = list(proof.varying)
    if not varying and not all(other.why for other in proofs):
        varying = [other.path for other in proofs if other.why]
    if not varying:
        return Reason(why, Change.AVERAGE)
    listed = " and ".join(varying)
    return Reason(f"{why}; of what is returned there, only {listed} may differ", Change.APART)


def _differs(site: Site, path: tuple[Key, ...], key: str) -> Reason:
    """A field of an output that is not proven to be the same on all devices."""
    for proof in site.proofs(path):
        if proof.why and key in proof.leaf:
            why = f"{proof.leaf} is not proven to be the same on all devices: {proof.why}"
            return Reason(why, Change.AVERAGE)
    why = f"{name_of(key)} is the same on all devices only if other arguments of {site.name} are"
    return Reason(why, Change.AVERAGE)


def _without_facts(site: Site) -> Reason:
    if site.doubt is not None:
        return _not_believed(site, site.doubt)
    if site.facts is None:
        why = f"whether {site.name} returns the same on all devices is not known"
        return Reason(why, Change.RECORD)
    if site.facts.axis_size == 1:
        return Reason(f"{site.name} was recorded on one device", Change.RECORD_ON_MORE)
    why = f"the recorded run has no proof for {site.name}, not all of whose programs were analysed"
    return Reason(why, Change.RECORD_ALONE)


def _not_believed(site: Site, doubt: Doubt) -> Reason:
    if doubt.changed:
        why = f"{doubt.changed} has changed since the run was recorded"
        return Reason(why, Change.RECORD_AGAIN)
    if doubt.outputs is not None:
        parts = " and ".join(doubt.outputs)
        why = f"the recorded runs disagree about what {site.name} returns, {parts}"
        return Reason(why, Change.SAME_OUTPUT)
    why = f"the recorded run does not say of which text of {site.file.path} it was"
    return Reason(why, Change.RECORD_AGAIN)


def decide(
    program: Program,
    left: Mapping[Site, str] = MappingProxyType({}),
    proves: Callable[[Decision, Site, tuple[Key, ...]], bool] = lambda *_: False,
) -> Decision:
    """Find the layout of each class; the sites of `left` are not to change, for a reason."""
    decision = Decision(left=left, proves=proves)
    decision.states = {id(state.cell): state for state in program.states}
    for cell in program.tracked:
        decision.classes |= {id(root): root for root in _with_parts(cell)}
    for key, root in decision.classes.items():
        not_whole = or_failure(_not_whole, decision, root)
        not_global = or_failure(_not_global, decision, root)
        if not_whole is None:
            is_state = key in decision.states
            decision.layouts[key] = Layout.MIXED if is_state else Layout.WHOLE
        elif not_global is None:
            decision.layouts[key] = Layout.GLOBAL
        else:
            is_nearer_whole = any(m.role in (Role.REPLICATE, Role.OUTPUT) for m in root.made)
            decision.layouts[key] = Layout.STACKED
            decision.reasons[key] = not_whole if is_nearer_whole else not_global
    while _withdraw(decision):
        pass
    return decision


def _with_parts(cell: Cell) -> list[Cell]:
    roots, waiting = [], [cell]
    while waiting:
        root = find(waiting.pop())
        if root not in roots:
            roots.append(root)
            waiting += root.parts.values()
    return roots


def _withdraw(decision: Decision) -> bool:
    """Take back the layouts that the others do not support; True if there were any."""
    before = dict(decision.layouts)
    for key, root in decision.classes.items():
        if decision.layouts[key] is not Layout.STACKED:
            why = (
                or_failure(_unproven, decision, root)
                or or_failure(_unanchored, root)
                or or_failure(_on_some_devices, decision, root)
                or or_failure(_held_back, decision, key)
            )
            if why is not None:
                decision.layouts[key] = Layout.STACKED
                decision.reasons[key] = why
    return decision.layouts != before


def _unproven(decision: Decision, root: Cell) -> Reason | None:
    if id(root) in decision.states:  # of its fields it is proven or not
        return None
    for made in root.made:
        if made.role is Role.OUTPUT and made.site is not None:
            why = (
                decision.unproven_field(made)
                if made.of_state
                else decision.unproven(made.site, made.path)
            )
            if why is not None:
                return why
    return None


def _held_back(decision: Decision, key: int) -> Reason | None:
    """A state and the rest of its fields lose their axis together, or not at all."""
    for own, state in decision.states.items():
        if key == id(find(state.rest)) and decision.layouts[own] is not Layout.MIXED:
            return decision.reasons[own]
        if key == own and decision.of(state.rest) is not Layout.WHOLE:
            return decision.reasons[id(find(state.rest))]
    return None


def _unanchored(root: Cell) -> Reason | None:
    """A site is laid over all devices only if it is certain that it was before."""
    stacked = {Role.REPLICATE, Role.SHARD, Role.ROWS}
    for site in sites_of(root):
        if site.ran_on_all_devices:
            continue
        given = [set(map(_anchor, find(cells[0]).made)) for cells in site.given.values()]
        if not any(roles & stacked and roles <= stacked | {Role.OUTPUT} for roles in given):
            return Reason(f"it is not known that {site.name} runs on all devices", Change.RECORD)
    return None


def _anchor(made: Point) -> Role:
    return made.role if made.counts_all else Role.ELSEWHERE


def _on_some_devices(decision: Decision, root: Cell) -> Reason | None:
    """Copies on `devices[:n]` are replaced by one for all only if another `n` cannot pass unseen.

    With fewer devices, an argument that stays stacked has fewer rows than there are devices, and
    jax.shard_map refuses it.
    """
    copied = next((made for made in root.made if not made.counts_all), None)
    if copied is None:
        return None
    for site in sites_of(root):
        if any(decision.argument(site, number) is Layout.STACKED for number in site.given):
            return None
    return Reason(f"it is copied to some of the devices at {copied.at}", Change.ALL_DEVICES)


def sites_of(root: Cell) -> list[Site]:
    """The sites that take or give values of a class."""
    sites = (point.site for point in (*root.uses, *root.made))
    return [site for site in dict.fromkeys(sites) if site is not None]


def _not_whole(decision: Decision, root: Cell) -> Reason | None:
    """Why the values of a class cannot lose their device axis; proofs come later."""
    if not root.made:
        return Reason("it is not known where it comes from", Change.PLACE)
    for made in root.made:
        if _is_unmapped(made):
            why = f"it comes from {made.at}, where out_axes=None gives it none"
            return Reason(why, Change.MAP_AS_IT_IS)
        if made.role is Role.OUTPUT and not _is_element(made):
            return Reason(f"it is not known what {made.at} reads of an output", Change.UNPACK)
        if made.role not in (Role.REPLICATE, Role.OUTPUT):
            return _origin(made)
    if root.escapes:
        return _escaped(root.escapes[0], Change.READ_FIRST_ROW)
    for use in root.uses:
        if use.role is Role.PREFETCH:
            return Reason(f"it is put on devices row by row at {use.at}", Change.NOT_AHEAD)
    is_mapped = any(point.role in (Role.ARGUMENT, Role.OUTPUT) for point in root.points)
    return _cannot_change(decision, root, is_mapped)


def _not_global(decision: Decision, root: Cell) -> Reason | None:
    """Why the rows of a class cannot be in one axis."""
    if not root.made:
        return Reason("it is not known where it comes from", Change.PLACE)
    for made in root.made:
        if made.role is not Role.SHARD:
            return _origin(made)
    if root.escapes:
        return _escaped(root.escapes[0], Change.READ_BEFORE)
    for use in root.uses:
        if use.role not in (Role.ARGUMENT, Role.PREFETCH):
            return Reason(f"rows of it are read at {use.at}", Change.READ_BEFORE)
        if use.site is not None and use.position in use.site.donated:
            return Reason(f"it is donated at {use.at}", Change.KEEP)
    is_mapped = any(use.role is Role.ARGUMENT for use in root.uses)
    return _cannot_change(decision, root, bool(root.made) and is_mapped)


def _escaped(escape: Escape, change: Change) -> Reason:
    """The reason that a use is which is not followed."""
    saved = advice(escape)
    if saved:
        return Reason(f"it {escape}{saved}", None)
    return Reason(f"it {escape}", Change.ALL_FILES if escape.outside else change)


def _cannot_change(decision: Decision, root: Cell, is_mapped: bool) -> Reason | None:
    """Why the text of a site, or of a place that makes or uses the values, cannot change."""
    for site in sites_of(root):
        if (why := decision.obstacle(site)) is not None:
            return Reason(f"{site.name} is not rewritten to global arrays: {why}", None)
    for point in root.points:
        if (reason := in_the_way(point)) is not None:
            return reason
    return None if is_mapped else Reason("it is not given to a pmapped function", Change.PLACE)


def _is_unmapped(made: Point) -> bool:
    """Whether it is an output that has no device axis."""
    is_output = made.role is Role.OUTPUT and made.site is not None
    return is_output and made.site.out_axis(made.path) is None  # type: ignore[union-attr]


def _is_element(made: Point) -> bool:
    """Whether it is certain what a path means: the output itself, or an element of a tuple."""
    assert made.site is not None
    length = made.site.length() or 0
    path = made.path[:-1] if made.of_state else made.path
    return not path or (isinstance(path[0], int) and path[0] < length)


def _origin(made: Point) -> Reason:
    if made.role is Role.ROWS:
        return Reason("it has one row per device", Change.PLACE)
    if isinstance(made.at.node, ast.arg):
        callers = "whose callers are not all known"
        callers += f" (see {made.why.at})" if made.why is not None else ""
        why = f"it comes from the parameter `{made.at.node.arg}` at {made.at}, {callers}"
        return Reason(why, Change.ALL_FILES)
    if made.why is not None:
        return _escaped(made.why, Change.PLACE)
    why = f"it comes from `{made.at.file.brief(made.at.node)}` at {made.at}, as it is"
    return Reason(why, Change.PLACE)


def findings(program: Program, decision: Decision) -> list[Finding]:
    """What keeps its device axis, once per argument and output of a pmapped function."""
    found: list[Finding] = []
    for site in program.sites.values():
        with blame(site.file):
            found += _of_site(site, decision)
    return list({(str(finding.at), finding.text): finding for finding in found}.values())


def _of_site(site: Site, decision: Decision) -> list[Finding]:
    if (obstacle := decision.obstacle(site)) is not None:
        text = f"the arrays of {site.name} keep their device axis: {obstacle}"
        return [Finding(Place(site.file, site.node), text)]
    arguments = _of_arguments(site, decision)
    return [*arguments.values(), *_of_outputs(site, decision, set(arguments))]


def _of_arguments(site: Site, decision: Decision) -> dict[int, Finding]:
    """The findings of a site's arguments, by the class of each."""
    found: dict[int, Finding] = {}
    for position, cells in sorted(site.given.items()):
        root = find(cells[0])
        why = decision.reasons.get(id(root))
        if why and {made.role for made in root.made} != {Role.ROWS}:
            at = next(u.at for u in root.uses if u.site is site and u.position == position)
            shown = f"`{at.file.brief(at.node)}`, argument {position} of {site.name},"
            found[id(root)] = Finding(at, f"{shown} keeps its device axis: {why}")
    return found


def _of_outputs(site: Site, decision: Decision, said: set[int]) -> list[Finding]:
    found: list[Finding] = []
    for root in _with_parts(site.results[0]) if site.results else ():
        why = decision.reasons.get(id(root))
        mine = [made for made in root.made if made.role is Role.OUTPUT and made.site is site]
        mine = [made for made in mine if not _is_unmapped(made)]
        if mine and why is not None and id(root) not in said and not root.parts:
            path = "".join(f"[{key!r}]" for key in mine[0].path)
            text = f"output{path} of {site.name} keeps its device axis: {why}"
            found.append(Finding(mine[0].at, text))
    return found
