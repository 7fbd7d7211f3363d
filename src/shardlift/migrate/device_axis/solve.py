"""A layout for each class of values: whole, global, or stacked as it was; and why not another."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from enum import StrEnum

from shardlift.migrate.device_axis.cells import Cell, Made, Place, Use, find
from shardlift.migrate.device_axis.program import Program
from shardlift.migrate.device_axis.reduced import is_reduced
from shardlift.migrate.device_axis.sites import Site
from shardlift.migrate.device_axis.spelling import in_the_way


class Layout(StrEnum):
    """How values of a class lie after the migration."""

    WHOLE = "whole"  # no device axis: P()
    GLOBAL = "global"  # rows of all devices in one axis: P(axis)
    STACKED = "stacked"  # a row for each device, as pmap has it


@dataclass(frozen=True)
class Finding:
    """Something that keeps its device axis, and why."""

    at: Place
    text: str


@dataclass
class Decision:
    """What came of all classes."""

    layouts: dict[int, Layout] = field(default_factory=dict)  # by the id of the class
    reasons: dict[int, str] = field(default_factory=dict)
    classes: dict[int, Cell] = field(default_factory=dict)

    def of(self, cell: Cell) -> Layout:
        """The layout of a value."""
        return self.layouts.get(id(find(cell)), Layout.STACKED)

    def argument(self, site: Site, position: int) -> Layout:
        """The layout of an argument of a pmapped function; whole where in_axes is None."""
        if site.in_axis(position) is None or position in site.static:
            return Layout.WHOLE
        return self.of(site.given[position][0]) if position in site.given else Layout.STACKED

    def output(self, site: Site, number: int | None) -> Layout:
        """The layout of an output, or of one element of it."""
        cell = find(site.results[0])
        if number is None or cell.collapsed:
            return self.of(cell)
        if number in cell.parts:
            return self.of(cell.parts[number])
        return self._unread(site, number)

    def _unread(self, site: Site, number: int) -> Layout:
        """An output that nobody reads: whole if that is proven."""
        cell = find(site.results[0])
        if cell.escapes or cell.uses:  # whoever has the tuple may read it
            return Layout.STACKED
        return Layout.STACKED if self.unproven(site, (number,)) else Layout.WHOLE

    def unproven(self, site: Site, path: tuple[int | str, ...]) -> str | None:
        """Why an output is not certain to be the same on all devices, given the layouts so far."""
        proofs = site.proofs(path)
        if not proofs:
            return None if is_reduced(site, path) else _without_facts(site)
        whole = {k for k in range(site.arguments or 0) if self.argument(site, k) is Layout.WHOLE}
        for proof in proofs:
            if proof.needs is None or not set(proof.needs) <= whole:
                if proof.why:
                    return f"{proof.leaf} is not proven to be the same on all devices: {proof.why}"
                missing = sorted(set(proof.needs or ()) - whole)
                named = ", ".join(str(k) for k in missing)
                return f"{proof.path} is the same on all devices only if argument {named} is"
        return None

    def is_changed(self, site: Site) -> bool:
        """Whether a pmapped function takes or gives anything but stacked arrays."""
        if site.obstacles or not site.results:
            return False
        inputs = [self.argument(site, k) for k in site.given]
        numbers: list[int | None] = [None]
        if not find(site.results[0]).collapsed:
            numbers = list(range(site.length() or 0))
        read = [n for n in numbers if n is None or n in find(site.results[0]).parts]
        outputs = [self.output(site, n) for n in read]
        return any(one is not Layout.STACKED for one in (*inputs, *outputs))


def _without_facts(site: Site) -> str:
    if site.stale:
        return (
            f"{site.stale} has changed since the run was recorded: record it again with "
            "`shardlift run --record FILE`"
        )
    if site.facts is None:
        return (
            f"whether {site.name} returns the same on all devices is not known: record a run that "
            "calls it, as it is now, with `shardlift run --record FILE` and give it as --facts FILE"
        )
    if site.facts.axis_size == 1:
        return f"{site.name} was recorded on one device: record it on as many as it is to run on"
    return f"the recorded run has no proof for {site.name}: not all of its programs could be asked"


def decide(program: Program) -> Decision:
    """Layouts such that every use is understood and every output that loses its axis is proven."""
    decision = Decision()
    for cell in program.tracked:
        for root in _with_parts(find(cell)):
            decision.classes[id(root)] = root
    for key, root in decision.classes.items():
        whole, spread = _not_whole(root), _not_global(root)
        if whole is None:
            decision.layouts[key] = Layout.WHOLE
        elif spread is None:
            decision.layouts[key] = Layout.GLOBAL
        else:
            decision.layouts[key] = Layout.STACKED
            decision.reasons[key] = whole if _is_nearer_whole(root) else spread
    while _withdraw(decision):
        pass
    return decision


def _with_parts(cell: Cell) -> list[Cell]:
    found, waiting = [], [cell]
    while waiting:
        one = find(waiting.pop())
        if one not in found:
            found.append(one)
            waiting += one.parts.values()
    return found


def _withdraw(decision: Decision) -> bool:
    """Take back what the layouts so far do not carry; True if there was any."""
    before = dict(decision.layouts)
    for key, root in decision.classes.items():
        if decision.layouts[key] is Layout.STACKED:
            continue
        why = _unproven(decision, root) or _unanchored(root)
        if why is not None:
            decision.layouts[key] = Layout.STACKED
            decision.reasons[key] = why
    return decision.layouts != before


def _unproven(decision: Decision, root: Cell) -> str | None:
    for made in root.made:
        if made.kind == "output" and made.site is not None:
            why = decision.unproven(made.site, made.path)
            if why is not None:
                return why
    return None


def _unanchored(root: Cell) -> str | None:
    """A site is laid over all devices only where it is certain to have been."""
    for site in _sites(root):
        classes = [find(cells[0]) for cells in site.given.values()]
        sure = {"replicate", "shard", "rows", "output"}
        if not any(
            {made.kind for made in one.made} <= sure and any(m.kind != "output" for m in one.made)
            for one in classes
        ):
            return f"it is not known that {site.name} runs on all devices"
    return None


def _sites(root: Cell) -> list[Site]:
    found = [use.site for use in root.uses] + [made.site for made in root.made]
    return [site for site in dict.fromkeys(found) if site is not None]


def _obstacle(root: Cell) -> str | None:
    for site in _sites(root):
        if site.obstacles:
            return f"{site.name} is not rewritten to global arrays: {site.obstacles[0]}"
    return None


def _is_nearer_whole(root: Cell) -> bool:
    kinds = {made.kind for made in root.made}
    return bool(kinds & {"replicate", "output"})


def _not_whole(root: Cell) -> str | None:
    """Why the values of a class cannot lose their device axis; proofs come later."""
    if not root.made:
        return "it is not known where it comes from"
    for made in root.made:
        if made.kind == "output" and not _is_element(made):
            return f"it is not known what {made.at} reads of an output"
        if made.kind not in ("replicate", "output"):
            return _origin(made)
    for escape in root.escapes:
        return f"it {escape}"
    for use in root.uses:
        if use.kind == "prefetch":
            return f"it is put on devices row by row at {use.at}"
    mapped = any(use.kind == "argument" for use in root.uses) or any(
        made.kind == "output" for made in root.made
    )
    alone = None if mapped else "it is not given to a pmapped function"
    return _obstacle(root) or _edits_in_the_way(root) or alone


def _not_global(root: Cell) -> str | None:
    """Why the rows of a class cannot be in one axis."""
    for made in root.made:
        if made.kind != "shard":
            return _origin(made)
    for escape in root.escapes:
        return f"it {escape}"
    for use in root.uses:
        if use.kind not in ("argument", "prefetch"):
            return f"rows of it are read at {use.at}"
        if use.site is not None and use.position in use.site.donated:
            return f"it is donated at {use.at}"
    if not root.made or not any(use.kind == "argument" for use in root.uses):
        return "it is not given to a pmapped function"
    return _obstacle(root) or _edits_in_the_way(root)


def _is_element(made: Made) -> bool:
    """Whether the path of an output is one that is certain: itself, or an element of a tuple."""
    if not made.path:
        return True
    site, first = made.site, made.path[0]
    assert site is not None
    return isinstance(first, int) and site.length() is not None and first < (site.length() or 0)


def _origin(made: Made) -> str:
    text = made.at.file.brief(made.at.node)
    if made.kind == "rows":
        return "it has one row for each device"
    if isinstance(made.at.node, ast.arg):
        name = made.at.node.arg
        callers = "whose callers are not all known"
        callers += f" (see {made.why.at})" if made.why is not None else ""
        return f"it comes from the parameter `{name}` at {made.at}, {callers}"
    if made.why is not None:
        return f"it {made.why}"
    return f"it comes from `{text}` at {made.at}, as it is"


def _edits_in_the_way(root: Cell) -> str | None:
    things: list[Made | Use] = [*root.made, *root.uses]
    return next((why for thing in things if (why := in_the_way(thing)) is not None), None)


def findings(program: Program, decision: Decision) -> list[Finding]:
    """What keeps its device axis, once for each argument and output of a pmapped function."""
    found: list[Finding] = []
    for site in program.sites.values():
        if site.obstacles:
            text = f"the arrays of {site.name} keep their device axis: {site.obstacles[0]}"
            found.append(Finding(Place(site.file, site.node), text))
            continue
        said: set[int] = set()
        for position, cells in sorted(site.given.items()):
            root = find(cells[0])
            why = decision.reasons.get(id(root))
            kinds = {made.kind for made in root.made}
            if decision.of(root) is Layout.STACKED and why and kinds != {"rows"}:
                said.add(id(root))
                at = next(u.at for u in root.uses if u.site is site and u.position == position)
                shown = f"`{at.file.brief(at.node)}`, argument {position} of {site.name},"
                found.append(Finding(at, f"{shown} keeps its device axis: {why}"))
        found += _of_outputs(site, decision, said)
    return list({(str(one.at), one.text): one for one in found}.values())


def _of_outputs(site: Site, decision: Decision, said: set[int]) -> list[Finding]:
    found: list[Finding] = []
    roots = [one for result in site.results[:1] for one in _with_parts(find(result))]
    for root in roots:
        why = decision.reasons.get(id(root))
        mine = [made for made in root.made if made.kind == "output" and made.site is site]
        if not mine or why is None or id(root) in said or root.parts:
            continue
        path = "".join(f"[{key!r}]" for key in mine[0].path)
        text = f"output{path} of {site.name} keeps its device axis: {why}"
        found.append(Finding(mine[0].at, text))
    return found
