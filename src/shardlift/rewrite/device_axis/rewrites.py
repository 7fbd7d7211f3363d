"""`--to global` and `--to jit`: files, facts and decisions in, changed files out.

The edits follow from the layouts: of sites, and of places that make or read arrays.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from shardlift.capture import schema
from shardlift.rewrite.call_format import Style
from shardlift.rewrite.changes import ChangeId, Decisions

# The functions of the visitor register themselves when their modules are imported.
from shardlift.rewrite.device_axis import visit_calls, visit_nodes  # noqa: F401
from shardlift.rewrite.device_axis.array_text import rewrite_places
from shardlift.rewrite.device_axis.cells import NodePlace
from shardlift.rewrite.device_axis.connections import connect, expose
from shardlift.rewrite.device_axis.followed_program import FollowedProgram
from shardlift.rewrite.device_axis.global_sites import GlobalSite
from shardlift.rewrite.device_axis.process_arrays import join_parts, kept_apart
from shardlift.rewrite.device_axis.reasons import Obstacle, ObstacleKind, obstacle
from shardlift.rewrite.device_axis.site_text import (
    HELPERS,
    Meshes,
    shard_map_form,
    whole_batch_form,
)
from shardlift.rewrite.device_axis.solve import AxisLayout, KeptAxis, decide, findings
from shardlift.rewrite.device_axis.visitor import Visitor
from shardlift.rewrite.goal import Goal
from shardlift.rewrite.names import is_shadowed, jax_name, partial_name
from shardlift.rewrite.passes import Rendering
from shardlift.rewrite.sites import edits_of, has_comments
from shardlift.rewrite.whole_batch import choose
from shardlift.source.file import File
from shardlift.source.model import Edit, Kind, Match
from shardlift.source.statements import cut
from shardlift.source.text import Source, UnreadableError

_ROUNDS = 4  # of looking for dead code: a function may be used by another one that is removed


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
        return {path: new for path, new in renderings.items() if new.changes or new.refused}


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
    if apart := kept_apart(program, decision, Meshes(program, decision)):
        decision = decide(program, left | apart)
    result, meshes = AxisPlan(findings=findings(program, decision)), Meshes(program, decision)
    jitted = choose(program, decision) if goal is Goal.JIT else {}
    for site in program.sites.values():
        step = jitted.get(site)
        if isinstance(step, Obstacle):
            text = f"{site.name} is not rewritten to jax.jit of the whole batch: {step}"
            result.findings.append(KeptAxis(NodePlace(site.file, site.node), text))
            step = None
        if step is not None:
            form, helpers = whole_batch_form(site, step, meshes)
        elif decision.is_changed(site):
            form, helpers = shard_map_form(site, decision, meshes)
        else:
            continue
        file, operand, imports = site.file, site.options.operand, jax_name(site.file)[1]
        if operand is None and not isinstance(site.node, ast.Call):  # @jax.pmap
            imports |= partial_name(file)[1]
        edits = edits_of(file, site.node, operand, form, Style.of(file.source.text))
        result.add(file, Match(site.node, "", edits, imports, helpers, kind=Kind.SITE))
        if file.many_processes:
            for own, match in join_parts(decision, site, meshes):
                result.add(own, match)
    for key, root in decision.classes.items():
        if decision.layouts[key] is not AxisLayout.STACKED:
            for file, match in rewrite_places(root, meshes):
                result.add(file, match)
    for file, definition in meshes.definitions():
        result.rewrites.setdefault(file.path, []).insert(0, definition)  # above moved comments
    return result


def _identity(site: GlobalSite) -> ChangeId:
    span = site.file.span(site.node)
    return ChangeId(site.file.path, span.line, span.column, Kind.SITE)


def _cannot_be_written(site: GlobalSite) -> Iterable[Obstacle]:
    file, at = site.file, NodePlace(site.file, site.node)
    if file.source.cells is not None:
        yield obstacle(ObstacleKind.NOTEBOOK)
    if has_comments(file, site.node, site.options.operand):
        yield obstacle(ObstacleKind.COMMENTS, text=file.brief(site.node), at=at)
    for name in (jax_name(file)[0], *HELPERS):
        if is_shadowed(file, site.node, name):
            yield obstacle(ObstacleKind.NAME_TAKEN, name=name, at=at)


def drop_dead_code(files: Sequence[File], renderings: dict[str, Rendering]) -> None:
    """Remove functions that the old texts used, and that the new ones name nowhere."""
    before = _mentions(files)
    for _ in range(_ROUNDS):
        new = [File(renderings[file.path].source, file.project) for file in files]
        unused = before - _mentions(new)
        found = False
        for old, file in zip(files, new, strict=True):
            if file.source.text != old.source.text and not file.path.endswith("__init__.py"):
                dead = list(_dead(file, unused))
                renderings[file.path].make(file, dead)
                found = found or bool(dead)
        if not found:
            return


def _mentions(files: Sequence[File]) -> set[str]:
    """Every name that is read, attribute, import and string of some files."""
    mentions: set[str] = set()
    for index in (file.index for file in files):
        mentions |= {node.id for node in index.nodes(ast.Name)}
        mentions |= {node.attr for node in index.nodes(ast.Attribute)}
        mentions |= {node.name for node in index.nodes(ast.alias)}
        mentions |= {str(node.value) for node in index.nodes(ast.Constant)}
    return mentions


def _dead(file: File, unused: set[str]) -> Iterator[Match]:
    for node in file.index.root.body:
        if isinstance(node, ast.FunctionDef) and not node.decorator_list and node.name in unused:
            yield Match(node, "", (_cut_function(file, node),), kind=Kind.DEVICE_AXIS)


def _cut_function(file: File, node: ast.FunctionDef) -> Edit:
    """Delete a function, the comment right above it and the blank lines below it."""
    first, last = node.lineno, (node.end_lineno or node.lineno) + 1
    while first > 1 and file.lines[first - 2].startswith("#"):
        first -= 1
    while last < len(file.lines) and not file.lines[last - 1].strip():
        last += 1
    is_last = last >= len(file.lines) and not file.lines[-1].strip()
    while is_last and first > 2 and not file.lines[first - 2].strip():
        first -= 1
    return cut(file, (first, 0), last)
