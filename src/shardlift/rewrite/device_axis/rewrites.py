"""`--to global` and `--to jit`: files, facts and decisions in, changed files out.

The edits follow from the layouts: of sites, and of places that make or read arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from shardlift.capture import schema
from shardlift.rewrite import sites as shard_map_sites
from shardlift.rewrite.call_format import Style
from shardlift.rewrite.changes import ChangeId, Decisions

# The functions of the visitor register themselves when their modules are imported.
from shardlift.rewrite.device_axis import (  # noqa: F401
    array_text,
    mesh,
    process_arrays,
    shard_map_text,
    visit_calls,
    visit_nodes,
)
from shardlift.rewrite.device_axis.cells import Cell, CellRole, NodePlace, Point
from shardlift.rewrite.device_axis.connections import connect
from shardlift.rewrite.device_axis.dead_code import drop_dead_code
from shardlift.rewrite.device_axis.followed_program import FollowedProgram
from shardlift.rewrite.device_axis.global_sites import GlobalSite
from shardlift.rewrite.device_axis.mesh import Meshes
from shardlift.rewrite.device_axis.outside_access import expose
from shardlift.rewrite.device_axis.reasons import Obstacle, ObstacleKind, obstacle
from shardlift.rewrite.device_axis.solve import (
    AxisLayout,
    Decision,
    KeptAxis,
    decide,
    findings,
)
from shardlift.rewrite.device_axis.visitor import Visitor
from shardlift.rewrite.goal import Goal
from shardlift.rewrite.names import is_shadowed, jax_name
from shardlift.rewrite.passes import Rendering
from shardlift.rewrite.whole_batch import JitPlan, choose, rewrite
from shardlift.source.file import File
from shardlift.source.model import Kind, Match
from shardlift.source.text import Source, UnreadableError


class GlobalTarget:
    """A program whose values are followed once, whatever changes are chosen."""

    def __init__(self, files: Iterable[File], facts: Sequence[schema.Capture], goal: Goal) -> None:
        """`facts` are those of recorded runs."""
        self._goal = goal
        self.program = analyse(files, facts)

    def render(
        self, decisions: Decisions, unchanged: Callable[[Source], Rendering]
    ) -> dict[str, Rendering]:
        """The files that change because their arrays lose the device axis, or cannot."""
        files = self.program.files
        planned = plan(self.program, decisions, self._goal)
        renderings = {file.path: unchanged(file.source) for file in files}
        for finding in planned.findings:
            rendering = renderings[finding.at.file.path]
            match = Match(finding.at.node, finding.text, kind=Kind.SITE)
            rendering.refused.append(rendering.change(finding.at.file, match))
        for file in files:
            if file.path in planned.rewrites:
                renderings[file.path].make(file, planned.rewrites[file.path])
        drop_dead_code(files, renderings)
        return {path: one for path, one in renderings.items() if one.changes or one.refused}


@dataclass
class AxisPlan:
    """The changes of each file, and what keeps its device axis."""

    rewrites: dict[str, list[Match]] = field(default_factory=dict)
    findings: list[KeptAxis] = field(default_factory=list)

    def add(self, file: File, change: Match) -> None:
        """Add a change of a file."""
        self.rewrites.setdefault(file.path, []).append(change)


def analyse(files: Iterable[File], captures: Sequence[schema.Capture] = ()) -> FollowedProgram:
    """Follow the values of a program whose files these are. Raises UnreadableError."""
    program = FollowedProgram(files, captures)
    for site in program.sites.values():
        site.obstacles += _cannot_be_written(site)
    if program.sites:
        for file in program.files:
            try:
                Visitor(program, file, file.index.module).block(file.index.root.body)
            except RecursionError:  # an expression of a thousand terms, say
                raise UnreadableError(f"{file.path} is nested too deeply to follow") from None
        expose(program)
        connect(program)
    return program


def plan(
    program: FollowedProgram, decided: Decisions = Decisions(), goal: Goal = Goal.GLOBAL
) -> AxisPlan:
    """The changes of a program, for one choice of them.

    The layouts are decided anew for each choice, since a site that is not changed keeps the arrays
    that it takes and gives stacked, and so does every other site that shares these arrays. The
    values are followed once, by `analyse`: that does not depend on the choice.
    """
    sites = program.sites.values()
    left = {
        site: obstacle(ObstacleKind.AS_TOLD, text=decided.left[change])
        for site in sites
        if (change := _identity(site)) in decided.left
    }
    decision = decide(program, left)
    if apart := process_arrays.kept_apart(program, decision, Meshes(program, decision)):
        decision = decide(program, left | apart)
    result, meshes = AxisPlan(findings=findings(program, decision)), Meshes(program, decision)
    jitted = choose(program, decision) if goal is Goal.JIT else JitPlan()
    for site in program.sites.values():
        if site in jitted.steps:
            result.add(site.file, rewrite(site, jitted.steps[site], meshes))
        elif decision.is_changed(site):
            _rewrite_site(result, site, decision, meshes)
    for site, refusal in jitted.refusals.items():
        text = f"{site.name} is not rewritten to jax.jit of the whole batch: {refusal}"
        result.findings.append(KeptAxis(NodePlace(site.file, site.node), text))
    for key, root in decision.classes.items():
        layout = decision.layouts[key]
        if layout is not AxisLayout.STACKED:
            _rewrite_class(result, root, layout, meshes)
    for file, definition in meshes.definitions():
        result.rewrites.setdefault(file.path, []).insert(0, definition)  # above moved comments
    return result


def _identity(site: GlobalSite) -> ChangeId:
    span = site.file.span(site.node)
    return ChangeId(site.file.path, span.line, span.column, Kind.SITE)


def _rewrite_site(result: AxisPlan, site: GlobalSite, decision: Decision, meshes: Meshes) -> None:
    """`jax.jit(jax.shard_map(...))`, with a spec per argument and output."""
    file, style = site.file, Style.of(site.file.source.text)
    form, helpers = shard_map_text.plain_form(site, decision, meshes)
    edits = shard_map_sites.edits_of(file, site.node, site.options.operand, form, style)
    imports = shard_map_text.imports_of(site)
    result.add(file, Match(site.node, "", edits, imports, helpers, kind=Kind.SITE))
    if file.many_processes:
        for own, match in process_arrays.join_parts(decision, site, meshes):
            result.add(own, match)


def _cannot_be_written(site: GlobalSite) -> Iterable[Obstacle]:
    file = site.file
    if file.source.cells is not None:
        yield obstacle(ObstacleKind.NOTEBOOK)
    if shard_map_sites.has_comments(file, site.node, site.options.operand):
        at = NodePlace(file, site.node)
        yield obstacle(ObstacleKind.COMMENTS, text=file.brief(site.node), at=at)
    for name in (jax_name(file)[0], mesh.HELPER, *shard_map_text.HELPERS):
        if is_shadowed(file, site.node, name):
            at = NodePlace(file, site.node)
            yield obstacle(ObstacleKind.NAME_TAKEN, name=name, at=at)


def _rewrite_class(result: AxisPlan, root: Cell, layout: AxisLayout, meshes: Meshes) -> None:
    """The places that make and use the values of a class, each once."""
    points = {(point.at.node, point.role): point for point in reversed(root.points)}
    for point in reversed(points.values()):
        change = _rewrite(root, point, layout, meshes)
        if change is not None:
            result.add(point.at.file, change)


def _rewrite(root: Cell, point: Point, layout: AxisLayout, meshes: Meshes) -> Match | None:
    node, role = point.at.node, point.role
    imports = frozenset[str]()
    if role is CellRole.REPLICATE and layout is AxisLayout.WHOLE:
        return _replicated(root, point, meshes)
    if role is CellRole.SHARD:
        edits = array_text.without_call(point)
    elif role in (CellRole.FIRST, CellRole.INDEX):
        edits, imports = array_text.first(point, _is_donated(root), point.at.file.many_processes)
    else:
        return None
    return Match(node, "", tuple(edits), imports, kind=Kind.DEVICE_AXIS)


def _replicated(root: Cell, point: Point, meshes: Meshes) -> Match:
    """A copy of a tree on every device."""
    file, node, typed = point.at.file, point.at.node, _types_numbers(root, point)
    axis = _axis_name(root) or meshes.default_axis
    written = Style.of(file.source.text).string(axis)
    sharding = meshes.sharding(file, axis, written, split=False)
    edits, imports = array_text.placed(point, sharding, typed)
    helpers = mesh.needs_helper(meshes.text(file, axis, written))
    return Match(node, "", tuple(edits), imports, helpers, kind=Kind.DEVICE_AXIS)


def _types_numbers(root: Cell, point: Point) -> bool:
    """Whether Python numbers get a type; of trees without scalars, there is nothing to do."""
    given = [(use.site, use.position) for use in root.uses if use.role is CellRole.ARGUMENT]
    return point.types_numbers and any(
        site is None or site.may_take_scalars(k) for site, k in given
    )


def _is_donated(root: Cell) -> bool:
    """Whether a value that is read may be donated while the program still uses it."""
    return any(
        use.site is not None and use.role is CellRole.ARGUMENT and use.position in use.site.donated
        for use in root.uses
    )


def _axis_name(root: Cell) -> str | None:
    """The axis name of a site that takes these values."""
    sites = (use.site for use in root.uses if use.site is not None)
    named = (site.axis_name for site in sites if "axis_name" in site.options.keywords)
    return next(named, None)
