"""The layout of each class of values: whole, global, or stacked as before; and the reason.

A class keeps its device axis unless every place that makes or uses its values can be rewritten,
and every output in it is proven to be the same on all devices. Taking back the layout of one class
may take away the proof of another, so this is repeated until nothing changes.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from shardlift.rewrite.device_axis.cells import Cell, CellRole, Escape, Key, NodePlace, Point
from shardlift.rewrite.device_axis.followed_program import FollowedProgram
from shardlift.rewrite.device_axis.global_sites import GlobalSite
from shardlift.rewrite.device_axis.reasons import (
    ALL_FILES,
    PLACE,
    READ_BEFORE,
    READ_FIRST_ROW,
    Obstacle,
    ObstacleKind,
    obstacle,
)
from shardlift.rewrite.names import is_shadowed, jax_name
from shardlift.source.text import has_comment

READS = (CellRole.FIRST, CellRole.INDEX)
_REWRITTEN = (CellRole.REPLICATE, CellRole.SHARD, *READS)


class AxisLayout(StrEnum):
    """How the values of a class are laid out after the migration."""

    WHOLE = "whole"  # no device axis: P()
    GLOBAL = "global"  # the rows of all devices in one axis: P(axis)
    STACKED = "stacked"  # one row per device, as pmap has it


@dataclass(frozen=True)
class KeptAxis:
    """Something that keeps its device axis, and why."""

    at: NodePlace
    text: str


@dataclass
class Decision:
    """The layouts of all classes, by the `id` of the class."""

    layouts: dict[int, AxisLayout] = field(default_factory=dict)
    reasons: dict[int, Obstacle] = field(default_factory=dict)
    classes: dict[int, Cell] = field(default_factory=dict)
    left: Mapping[GlobalSite, Obstacle] = field(default_factory=dict)  # sites that do not change

    def obstacle(self, site: GlobalSite) -> Obstacle | None:
        """Why the arrays of a site cannot change."""
        return self.left.get(site) or next(iter(site.obstacles), None)

    def of(self, cell: Cell) -> AxisLayout:
        """The layout of a value."""
        return self.layouts.get(id(cell.root()), AxisLayout.STACKED)

    def argument(self, site: GlobalSite, position: int) -> AxisLayout:
        """The layout of an argument of a pmapped function; whole if in_axes is None."""
        if site.in_axis(position) is None:
            return AxisLayout.WHOLE
        return self.of(site.given[position][0]) if position in site.given else AxisLayout.STACKED

    def outputs(self, site: GlobalSite) -> list[AxisLayout]:
        """The layouts of the elements of an output tuple; of any other output, its layout."""
        cell, length = site.results[0].root(), site.length()
        if site.out_axes is None:
            return [AxisLayout.WHOLE]
        if length is None or cell.collapsed:
            return [self.of(cell)]
        layouts: list[AxisLayout] = []
        for number in range(length):
            if number in cell.parts:
                layouts.append(self.of(cell.parts[number]))
            else:  # nothing reads it, unless the whole tuple is used
                is_used = cell.escaped or cell.uses or self.unproven(site, (number,))
                layouts.append(AxisLayout.STACKED if is_used else AxisLayout.WHOLE)
        return layouts

    def unproven(self, site: GlobalSite, path: tuple[Key, ...]) -> Obstacle | None:
        """Why an output is not certain to be the same on all devices, given the layouts so far."""
        proofs = site.proofs(path)
        if not proofs:
            return _without_facts(site)
        whole = {
            k for k in range(site.arguments or 0) if self.argument(site, k) is AxisLayout.WHOLE
        }
        for proof in proofs:
            if proof.needs is None or not set(proof.needs) <= whole:
                if proof.why:
                    return obstacle(ObstacleKind.MAY_DIFFER, leaf=proof.leaf, why=proof.why)
                missing = ", ".join(map(str, sorted(set(proof.needs or ()) - whole)))
                about = {"path": proof.path, "arguments": missing}
                return obstacle(ObstacleKind.IF_ARGUMENT, **about)
        return None

    def is_changed(self, site: GlobalSite) -> bool:
        """Whether a pmapped function takes or gives anything but stacked arrays."""
        if self.obstacle(site) is not None or not site.results:
            return False
        cell = site.results[0].root()
        read = [self.of(part) for part in (cell.parts.values() if not cell.collapsed else [cell])]
        inputs = [self.argument(site, position) for position in site.given]
        return any(layout is not AxisLayout.STACKED for layout in (*inputs, *read))


def _without_facts(site: GlobalSite) -> Obstacle:
    if site.doubt is not None:
        return site.doubt
    kind = ObstacleKind.NO_PROOF if site.facts is not None else ObstacleKind.NOT_RECORDED
    if site.facts is not None and site.facts.axis_size == 1:
        kind = ObstacleKind.ONE_DEVICE
    return obstacle(kind, name=site.name)


def decide(
    program: FollowedProgram, left: Mapping[GlobalSite, Obstacle] = MappingProxyType({})
) -> Decision:
    """Find the layout of each class; the sites of `left` are not to change, for a reason."""
    decision = Decision(left=left)
    for cell in program.tracked:
        decision.classes |= {id(root): root for root in cell.inside()}
    for key, root in decision.classes.items():
        not_whole, not_global = _not_whole(decision, root), _not_global(decision, root)
        if not_whole is None:
            decision.layouts[key] = AxisLayout.WHOLE
        elif not_global is None:
            decision.layouts[key] = AxisLayout.GLOBAL
        else:
            is_copied = any(m.role in (CellRole.REPLICATE, CellRole.OUTPUT) for m in root.made)
            decision.layouts[key] = AxisLayout.STACKED
            decision.reasons[key] = not_whole if is_copied else not_global
    while _withdraw(decision):
        pass
    return decision


def _withdraw(decision: Decision) -> bool:
    """Take back the layouts that the others do not support; True if there were any."""
    before = dict(decision.layouts)
    for key, root in decision.classes.items():
        for made in root.made if decision.layouts[key] is not AxisLayout.STACKED else ():
            site = made.site if made.role is CellRole.OUTPUT else None
            if site is not None and (why := decision.unproven(site, made.path)) is not None:
                decision.layouts[key], decision.reasons[key] = AxisLayout.STACKED, why
                break
    return decision.layouts != before


def _not_whole(decision: Decision, root: Cell) -> Obstacle | None:
    """Why the values of a class cannot lose their device axis; proofs come later."""
    for made in root.made:
        if made.role not in (CellRole.REPLICATE, CellRole.OUTPUT):
            return _origin(made)
        if made.role is CellRole.OUTPUT and made.site is not None:
            if not made.site.proofs(()):
                return _without_facts(made.site)
            # A path leads to the output itself, or certainly to an element of a tuple.
            number, length = (*made.path, -1)[0], made.site.length() or 0
            is_part = isinstance(number, int) and number < length
            if made.site.out_axes is None or (made.path and not is_part):
                return _origin(made)
    if root.escaped is not None:
        for made in root.made:  # what differs between devices, whatever is given to its site
            proofs = made.site.proofs(made.path) if made.site is not None else []
            for proof in (proof for proof in proofs if proof.needs is None and proof.why):
                return obstacle(ObstacleKind.MAY_DIFFER, leaf=proof.leaf, why=proof.why)
        return _escaped(root.escaped, READ_FIRST_ROW)
    is_mapped = any(point.role in (CellRole.ARGUMENT, CellRole.OUTPUT) for point in root.points)
    return _cannot_change(decision, root, is_mapped)


def _not_global(decision: Decision, root: Cell) -> Obstacle | None:
    """Why the rows of a class cannot be in one axis."""
    for made in root.made:
        if made.role is not CellRole.SHARD:
            return _origin(made)
    if root.escaped is not None:
        return _escaped(root.escaped, READ_BEFORE)
    for use in root.uses:
        if use.role is not CellRole.ARGUMENT:
            return obstacle(ObstacleKind.ROWS_READ, at=use.at)
        if use.site is not None and use.position in use.site.donated:
            return obstacle(ObstacleKind.DONATED, at=use.at)
    return _cannot_change(decision, root, is_mapped=bool(root.uses))


def _escaped(escape: Escape, advice: str) -> Obstacle:
    """A use that is not followed."""
    advice = ALL_FILES if escape.outside else advice
    return obstacle(ObstacleKind.ESCAPES, escape=escape, advice=advice)


def _cannot_change(decision: Decision, root: Cell, is_mapped: bool) -> Obstacle | None:
    """Why the text of a site, or of a place that makes or uses the values, cannot change."""
    if not root.made:
        return obstacle(ObstacleKind.ORIGIN_UNKNOWN)
    for point in (*root.uses, *root.made):
        if point.site is not None and (why := decision.obstacle(point.site)) is not None:
            return obstacle(ObstacleKind.SITE_STAYS, name=point.site.name, why=why)
    for point in root.points:
        file, node = point.at.file, point.at.node
        if point.role in _REWRITTEN and has_comment(f"({file.text(node)})"):
            return obstacle(ObstacleKind.COMMENTS, text=file.brief(node), at=point.at)
        if point.role in READS and is_shadowed(file, node, jax_name(file)[0]):
            return obstacle(ObstacleKind.NAME_TAKEN, name=jax_name(file)[0], at=point.at)
    return None if is_mapped else obstacle(ObstacleKind.NOT_GIVEN)


def _origin(made: Point) -> Obstacle:
    if made.role is CellRole.ROWS:
        return obstacle(ObstacleKind.ROWS)
    if isinstance(made.at.node, ast.arg):
        see = f" (see {made.why.at})" if made.why is not None else ""
        about = {"name": made.at.node.arg, "at": made.at, "see": see}
        return obstacle(ObstacleKind.PARAMETER, **about)
    if made.why is not None:
        return _escaped(made.why, PLACE)
    text = made.at.file.brief(made.at.node)
    return obstacle(ObstacleKind.NOT_FOLLOWED, text=text, at=made.at)


def findings(program: FollowedProgram, decision: Decision) -> list[KeptAxis]:
    """What keeps its device axis, once per argument and output of a pmapped function."""
    kept = [finding for site in program.sites.values() for finding in _kept(site, decision)]
    return list({(str(finding.at), finding.text): finding for finding in kept}.values())


def _kept(site: GlobalSite, decision: Decision) -> Iterator[KeptAxis]:
    if (why := decision.obstacle(site)) is not None:
        text = f"the arrays of {site.name} keep their device axis: {why}"
        yield KeptAxis(NodePlace(site.file, site.node), text)
        return
    arguments: dict[int, KeptAxis] = {}  # one for each class
    for position, cells in sorted(site.given.items()):
        root = cells[0].root()
        why = decision.reasons.get(id(root))
        if why and {made.role for made in root.made} != {CellRole.ROWS}:
            at = next(u.at for u in root.uses if u.site is site and u.position == position)
            shown = f"`{at.file.brief(at.node)}`, argument {position} of {site.name},"
            arguments[id(root)] = KeptAxis(at, f"{shown} keeps its device axis: {why}")
    yield from arguments.values()
    for root in site.results[0].inside() if site.results else ():
        why = decision.reasons.get(id(root))
        made = next((m for m in root.made if m.role is CellRole.OUTPUT and m.site is site), None)
        is_said = id(root) in arguments or root.parts or site.out_axes is None
        if made is not None and why is not None and not is_said:
            path = "".join(f"[{key!r}]" for key in made.path)
            yield KeptAxis(made.at, f"output{path} of {site.name} keeps its device axis: {why}")
