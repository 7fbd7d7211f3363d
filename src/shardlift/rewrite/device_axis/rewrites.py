"""`--to global` and `--to jit`: files, facts and decisions in, changed files out.

The edits follow from the layouts: of sites, and of places that make or read arrays.
"""

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence

from shardlift.capture import schema
from shardlift.rewrite.call_format import Style
from shardlift.rewrite.changes import ChangeId, Decisions

# The functions of the visitor register themselves when their modules are imported.
from shardlift.rewrite.device_axis import site_text, visit_calls, visit_nodes  # noqa: F401
from shardlift.rewrite.device_axis.array_text import rewrite_places
from shardlift.rewrite.device_axis.cells import NodePlace
from shardlift.rewrite.device_axis.connections import connect, expose
from shardlift.rewrite.device_axis.followed_program import FollowedProgram
from shardlift.rewrite.device_axis.global_sites import GlobalSite
from shardlift.rewrite.device_axis.reasons import Obstacle, ObstacleKind, obstacle
from shardlift.rewrite.device_axis.solve import AxisLayout, Decision, KeptAxis, decide, findings
from shardlift.rewrite.device_axis.visitor import Visitor
from shardlift.rewrite.forms import edits_of, has_comments
from shardlift.rewrite.goal import Goal
from shardlift.rewrite.names import is_shadowed, jax_name, partial_name
from shardlift.rewrite.passes import Rendering
from shardlift.rewrite.whole_batch import Steps, choose
from shardlift.source.file import File
from shardlift.source.model import Kind, Match
from shardlift.source.scopes import grouped
from shardlift.source.text import Source, UnreadableError


class GlobalTarget:
    """A program whose values are followed once, whatever changes are chosen."""

    def __init__(self, files: Iterable[File], facts: Sequence[schema.Capture], goal: Goal) -> None:
        """`facts` come from recorded runs."""
        self._goal = goal
        self.program = analyse(files, facts)

    def render(
        self, decisions: Decisions, unchanged: Callable[[Source], Rendering]
    ) -> dict[str, Rendering]:
        """The files that change because their arrays lose the device axis, or cannot.

        The layouts are decided anew for each choice of changes, since a site that is not changed
        keeps the arrays that it takes and gives stacked, and so does every other site that shares
        these arrays.
        """
        program, files = self.program, self.program.files
        left: dict[GlobalSite, Obstacle] = {}
        for site in program.sites.values():
            span = site.file.span(site.node)
            change = ChangeId(site.file.path, span.line, span.column, Kind.SITE)
            if change in decisions.left:
                left[site] = obstacle(ObstacleKind.AS_TOLD, text=decisions.left[change])
        decision = decide(program, left)
        steps = choose(program, decision) if self._goal is Goal.JIT else {}
        kept = findings(program, decision)
        for site, step in steps.items():
            if isinstance(step, Obstacle):
                text = f"{site.name} is not rewritten to jax.jit of the whole batch: {step}"
                kept.append(KeptAxis(NodePlace(site.file, site.node), text))
        renderings = {file.path: unchanged(file.source) for file in files}
        for finding in kept:
            rendering = renderings[finding.at.file.path]
            match = Match(finding.at.node, finding.text, kind=Kind.SITE)
            rendering.refused.append(rendering.change(finding.at.file, match))
        changes = grouped(_changes(program, decision, steps), lambda change: change[0])
        for file, found in changes.items():
            renderings[file.path].make(file, [match for _, match in found])
        return {path: new for path, new in renderings.items() if new.changes or new.refused}


def analyse(files: Iterable[File], captures: Sequence[schema.Capture] = ()) -> FollowedProgram:
    """Follow the values of a program whose files these are. Raises UnreadableError."""
    program = FollowedProgram(files, captures)
    for site in program.sites.values():
        site.obstacles += _cannot_be_written(site)
    if program.sites:
        for file in program.files:
            try:
                Visitor(program, file).block(file.index.root.body)
            except RecursionError:  # an expression of a thousand terms, say
                raise UnreadableError(f"{file.path} is nested too deeply to follow") from None
        expose(program)
        connect(program)
    return program


def _changes(
    program: FollowedProgram, decision: Decision, steps: Steps
) -> Iterator[tuple[File, Match]]:
    """The changes of sites, and of the places that make and use arrays."""
    meshes, changes = site_text.Meshes(program, decision), list[tuple[File, Match]]()
    for site in program.sites.values():
        step = steps.get(site)
        if step is not None and not isinstance(step, Obstacle):
            form, helpers = site_text.whole_batch_form(site, step, meshes)
        elif decision.is_changed(site):
            form, helpers = site_text.shard_map_form(site, decision, meshes)
        else:
            continue
        file, operand, imports = site.file, site.options.operand, jax_name(site.file)[1]
        if operand is None and not isinstance(site.node, ast.Call):  # @jax.pmap
            imports |= partial_name(file)[1]
        edits = edits_of(file, site.node, operand, form, Style.of(file.source.text))
        changes.append((file, Match(site.node, "", edits, imports, helpers, kind=Kind.SITE)))
    for key, root in decision.classes.items():
        if decision.layouts[key] is not AxisLayout.STACKED:
            changes += rewrite_places(root, meshes)
    yield from meshes.definitions()  # above moved comments
    yield from changes


def _cannot_be_written(site: GlobalSite) -> Iterable[Obstacle]:
    file, at = site.file, NodePlace(site.file, site.node)
    if file.source.cells is not None:
        yield obstacle(ObstacleKind.NOTEBOOK)
    if file.many_processes:
        yield obstacle(ObstacleKind.MANY_PROCESSES)
    if has_comments(file, site.node, site.options.operand):
        yield obstacle(ObstacleKind.COMMENTS, text=file.brief(site.node), at=at)
    for name in (jax_name(file)[0], *site_text.HELPERS):
        if is_shadowed(file, site.node, name):
            yield obstacle(ObstacleKind.NAME_TAKEN, name=name, at=at)
