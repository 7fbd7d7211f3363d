"""Where states with fields of several layouts are given, returned, replicated and read."""

from __future__ import annotations

import ast

from shardlift.migrate.call_format import CallText, Style
from shardlift.migrate.device_axis import mesh, plain, spelling
from shardlift.migrate.device_axis.cells import Cell, Key, Point, Role, find
from shardlift.migrate.device_axis.mesh import Meshes
from shardlift.migrate.device_axis.program import Program
from shardlift.migrate.device_axis.sites import Site
from shardlift.migrate.device_axis.solve import Decision, Layout, sites_of
from shardlift.migrate.device_axis.state_rows import StateText
from shardlift.migrate.device_axis.states import Candidate, State
from shardlift.migrate.names import jax_name
from shardlift.source.model import Edit, Kind, Match
from shardlift.source.scopes import end

_ROLES = frozenset({Role.REPLICATE, Role.FIRST, Role.ARGUMENT, Role.OUTPUT})


def find_candidates(program: Program, decision: Decision) -> list[Candidate]:
    """The outputs that keep their device axis, though a run proved something of their fields."""
    found: list[Candidate] = []
    for site in program.sites.values():
        if site.file.project.settings.exact or site.file.many_processes:
            continue
        if not site.results or decision.obstacle(site) is not None:
            continue
        positions = range(site.arguments or 0)
        whole = {k for k in positions if decision.argument(site, k) is Layout.WHOLE}
        for path in _paths(site):
            is_stacked = _layout(decision, site, path) is Layout.STACKED
            if is_stacked and len(site.fields(path)) > 1:
                found.append(Candidate(site.node, path, frozenset(whole)))
    return found


def _paths(site: Site) -> list[tuple[Key, ...]]:
    """The output, or its elements if it is a tuple."""
    length = site.length()
    return [()] if length is None else [(k,) for k in range(length)]


def _layout(decision: Decision, site: Site, path: tuple[Key, ...]) -> Layout:
    outputs = decision.outputs(site)
    return outputs[path[0]] if path and len(outputs) > 1 else outputs[0]  # type: ignore[index]


def not_written(program: Program, decision: Decision) -> list[Candidate]:
    """The states of a program that do not become mixed after all, or whose text is not known."""
    return [
        state.candidate for state in program.states if not _is_written(program, decision, state)
    ]


def _is_written(program: Program, decision: Decision, state: State) -> bool:
    if decision.of(state.cell) is not Layout.MIXED or decision.of(state.rest) is not Layout.WHOLE:
        return False
    if any(decision.of(field) is not Layout.STACKED for field in state.fields.values()):
        return False
    points = state.cell.points
    if any(point.role not in _ROLES or not _has_text(point) for point in points):
        return False
    return all(
        plain.needs_rows_helper(program, site, decision) is None for site in sites_of(state.cell)
    )


def _has_text(point: Point) -> bool:
    """Whether a place that makes or reads a state can be rewritten."""
    if point.role is Role.REPLICATE:
        return _target(point) is not None
    return point.role is not Role.FIRST or (point.inner is not None and _is_name(point.inner))


def _is_name(node: ast.expr) -> bool:
    """Whether an expression can be written twice: a name, or attributes of one."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def _target(point: Point) -> ast.expr | None:
    """What a replicated state is assigned to, by a statement that does nothing else."""
    statement = point.at.file.index.parents.get(point.at.node)
    target: ast.expr | None = None
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
    elif isinstance(statement, ast.AnnAssign):
        target = statement.target
    return target if target is not None and _is_name(target) else None


def rewrite(
    decision: Decision, root: Cell, point: Point, meshes: Meshes, axis: str | None, is_given: bool
) -> Match | None:
    """The edits of a place that replicates a state or reads its first row."""
    state = decision.states[id(find(root))]
    if point.role is Role.REPLICATE:
        return _replicated(state, point, meshes, axis or meshes.default_axis)
    return _first(state, point, is_given) if point.role is Role.FIRST else None


def _first(state: State, point: Point, is_given: bool) -> Match:
    """The first row of the fields that have rows; of the rest a copy, if it may be donated."""
    file, node, inner = point.at.file, point.at.node, point.inner
    assert inner is not None
    (jax, imports), text = jax_name(file), StateText(file, state)
    call = text.each_field(file.text(inner), lambda x: f"{x}[0]")
    if is_given and not spelling.is_read_now(file, node):
        call = CallText(f"{jax}.tree.map", (f"{spelling.numpy_name(file, jax)}.copy", call))
    edit = file.replace(node, spelling.laid_out(file, node, call))
    return Match(node, "", (edit,), imports | state.form.imports, kind=Kind.DEVICE_AXIS)


def _replicated(state: State, point: Point, meshes: Meshes, axis: str) -> Match:
    """A copy of a state on every device, and then one row per device of some fields."""
    file, node = point.at.file, point.at.node
    (jax, imports), written = jax_name(file), Style.of(file.source.text).string(axis)
    replicated = meshes.sharding(file, axis, written, split=False)
    if not spelling.fits_on_a_line(point, replicated):
        replicated = meshes.named(file, axis, replicated, "replicated")
    rows = meshes.sharding(file, axis, written, split=True)
    rows = meshes.named(file, axis, rows, f"over_{axis}")
    edits, _ = spelling.placed(point, replicated)
    statement = file.index.statement(node)
    target = _target(point)
    assert statement is not None
    assert target is not None
    text, name = StateText(file, state), file.text(target)
    stack = f"{spelling.numpy_name(file, jax)}.stack([{{}}] * {jax}.device_count())"
    stacked = {
        field: text.on_leaves(field, state.form.read(name, field, text.style), stack.format)
        for field in state.fields
    }
    values = {field: CallText(f"{jax}.device_put", (one, rows)) for field, one in stacked.items()}
    replaced = state.form.replaced(name, values, text.style)
    added = text.assigned(name, replaced, file.margin(statement.lineno))
    at = end(statement)
    edits = [*edits, Edit(file.stretch(*at, *at), f"\n{added.rstrip()}")]
    helpers = mesh.needs_helper(meshes.text(file, axis, written))
    imports |= state.form.imports
    return Match(node, "", tuple(edits), imports, helpers, kind=Kind.DEVICE_AXIS)
