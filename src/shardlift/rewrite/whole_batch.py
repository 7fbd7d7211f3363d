"""`migrate --to jit`: data-parallel steps as `jax.jit` over the whole batch, without collectives.

A recorded run has tried each step on the whole batch: see `recording.whole_batch`. The steps that
agree are rewritten. The recording also has the lines of the collectives, which are removed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from shardlift.capture.schema import Untried
from shardlift.rewrite import sites as shard_map_sites
from shardlift.rewrite.call_format import Style
from shardlift.rewrite.device_axis.array_text import text_around
from shardlift.rewrite.device_axis.cells import NodePlace
from shardlift.rewrite.device_axis.followed_program import FollowedProgram
from shardlift.rewrite.device_axis.global_sites import GlobalSite
from shardlift.rewrite.device_axis.mesh import Meshes, needs_helper
from shardlift.rewrite.device_axis.recordings import is_file
from shardlift.rewrite.device_axis.shard_map_text import (
    donation,
    imports_of,
    listed,
    spec,
)
from shardlift.rewrite.device_axis.solve import AxisLayout, Decision
from shardlift.rewrite.forms import CallForm
from shardlift.rewrite.names import is_shadowed, jax_name
from shardlift.rewrite.scripts import runs_at_import
from shardlift.source.file import File
from shardlift.source.libraries import REDUCTIONS
from shardlift.source.model import Edit, HelperRequest, Kind, Match
from shardlift.source.scopes import FUNCTIONS
from shardlift.source.statements import delete, is_only_statement
from shardlift.source.values import Known

HELPER = "jit_over_devices"
_AXIS_SIZE = "jax.lax.axis_size"
_NEEDS_DEVICES = frozenset({"jax.lax.axis_index", _AXIS_SIZE}) | REDUCTIONS


class JitObstacle(StrEnum):
    """Why a step does not become `jax.jit` of the whole batch. `{}` is the detail."""

    NOT_RECORDED = "no recorded run of this text shows what it computes: record one"
    NOT_TRIED = "in the recorded run it was not tried on the whole batch: {}"
    DIFFERS = "on the whole batch it computes something else: {}"
    INSIDE = "it is also called inside of another program, where it was not looked at"
    STACKED_ARGUMENT = "argument {} keeps its device axis"
    OTHER_ARGUMENT = "argument {} is laid out in another way than in the recorded run"
    STACKED_OUTPUT = "an output keeps its device axis"
    STATIC = "it has static arguments"
    SHADOWED = f"the name `{HELPER}` means something else here"
    NO_CALL = "the collective at {} is not a plain call of jax.lax in the given files"
    NOT_REACHED = "the recorded run did not reduce anything at {}"
    COMMENTS = "there are comments inside `{}`"
    SHARED = "{}"


_UNTRIED = {
    Untried.ONE_DEVICE: "it ran on one device",
    Untried.MANY_PROCESSES: "it ran in many processes",
    Untried.NO_COLLECTIVE: "it reduces nothing over the devices",
    Untried.COLLECTIVE: "it needs devices for more than reductions over all of them",
    Untried.SIDE_EFFECTS: "it calls back to the host",
    Untried.EQUAL_ROWS: "its arguments were the same on all devices, which shows nothing",
    Untried.RANDOM_KEYS: "it is given one random key per device",
    Untried.NO_ROWS: "an argument that differs between devices has no axis of rows",
    Untried.TOO_LARGE: "its arguments were too large",
    Untried.TOO_SLOW: "it took too long to compile",
    Untried.FAILED: "it failed there",
}


@dataclass(frozen=True)
class JitRefusal:
    """The obstacle of a step, for a finding."""

    obstacle: JitObstacle
    detail: object = ""

    def __str__(self) -> str:
        return self.obstacle.value.format(self.detail)


@dataclass(frozen=True, eq=False)
class JitStep:
    """A step that is rewritten: the layouts of its arguments, and its collectives."""

    layouts: tuple[AxisLayout, ...]
    collectives: dict[ast.Call, File] = field(repr=False)


@dataclass
class JitPlan:
    """The sites that become jit of the whole batch, and why others do not."""

    steps: dict[GlobalSite, JitStep] = field(default_factory=dict)
    refusals: dict[GlobalSite, JitRefusal] = field(default_factory=dict)

    def refuse(self, site: GlobalSite, refusal: JitRefusal) -> None:
        """Leave a site to the other targets."""
        self.steps.pop(site, None)
        self.refusals[site] = refusal


def choose(program: FollowedProgram, decision: Decision) -> JitPlan:
    """The sites that become jit of the whole batch, for the layouts of a program."""
    chosen = JitPlan()
    for site in program.sites.values():
        if decision.obstacle(site) is None and site.results:
            _choose(chosen, site, decision, program.files)
    while (shared := _shared(program, chosen.steps)) is not None:
        chosen.refuse(*shared)
    return chosen


def _choose(chosen: JitPlan, site: GlobalSite, decision: Decision, files: Sequence[File]) -> None:
    layouts = tuple(decision.argument(site, k) for k in range(site.arguments or 0))
    refusal = _not_shown(site, layouts) or _not_written(site, decision)
    calls = dict(_calls_on(_recorded_lines(site), files)) if refusal is None else {}
    if refusal is None:
        refusal = _without_call(site, files, calls) or _leftover(site, calls)
    if refusal is None:
        commented = [call for call, file in calls.items() if "#" in file.text(call)]
        if not commented:
            chosen.steps[site] = JitStep(layouts, calls)
            return
        refusal = JitRefusal(JitObstacle.COMMENTS, calls[commented[0]].brief(commented[0]))
    chosen.refuse(site, refusal)


def _not_shown(site: GlobalSite, layouts: Sequence[AxisLayout]) -> JitRefusal | None:
    """Why recorded runs do not show that a step computes the same on the whole batch."""
    facts = site.facts
    trial = None if facts is None or site.doubt is not None else facts.whole_batch
    if facts is None or trial is None:
        return JitRefusal(JitObstacle.NOT_RECORDED)
    if trial.untried is not None:
        why = _UNTRIED[trial.untried] + (f" ({trial.error})" if trial.error else "")
        return JitRefusal(JitObstacle.NOT_TRIED, why)
    if not trial.holds:
        said = f"{trial.at} differs by {trial.difference:.1e} of its largest number"
        return JitRefusal(JitObstacle.DIFFERS, said)
    if facts.nested or facts.transformed:
        return JitRefusal(JitObstacle.INSIDE)
    for number, layout in enumerate(layouts):
        if layout not in (AxisLayout.WHOLE, AxisLayout.GLOBAL):
            return JitRefusal(JitObstacle.STACKED_ARGUMENT, number)
        if (layout is AxisLayout.GLOBAL) is not (number in trial.joined):
            return JitRefusal(JitObstacle.OTHER_ARGUMENT, number)
    return None


def _not_written(site: GlobalSite, decision: Decision) -> JitRefusal | None:
    obstacles = {
        JitObstacle.STACKED_OUTPUT: any(
            layout is not AxisLayout.WHOLE for layout in decision.outputs(site)
        ),
        JitObstacle.STATIC: site.static,
        JitObstacle.SHADOWED: is_shadowed(site.file, site.node, HELPER),
    }
    return next((JitRefusal(one) for one, applies in obstacles.items() if applies), None)


# ---- collectives


def _recorded_lines(site: GlobalSite) -> list[tuple[str, int]]:
    """File and line of each collective of a step."""
    assert site.facts is not None
    lines = {line: None for one in site.facts.collectives for line in one.lines}
    return [(file, int(number)) for file, _, number in (line.rpartition(":") for line in lines)]


def _calls_on(
    lines: Iterable[tuple[str, int]], files: Sequence[File]
) -> Iterator[tuple[ast.Call, File]]:
    """The calls of psum, pmean, pmax and pmin on some lines."""
    for path, line in lines:
        for file in files:
            if is_file(path, file.path):
                for call in file.index.nodes(ast.Call):
                    is_here = call.lineno <= line <= (call.end_lineno or call.lineno)
                    if is_here and file.called(call) in REDUCTIONS and _operand(call) is not None:
                        yield call, file


def _operand(call: ast.Call) -> ast.expr | None:
    named = [keyword.value for keyword in call.keywords if keyword.arg == "x"]
    found = [*call.args[:1], *named]
    return found[0] if len(found) == 1 and not isinstance(found[0], ast.Starred) else None


def _without_call(
    site: GlobalSite, files: Sequence[File], calls: dict[ast.Call, File]
) -> JitRefusal | None:
    """A recorded collective that no call in the text makes, but a library."""
    for line in _recorded_lines(site):
        if not any(call in calls for call, _ in _calls_on([line], files)):
            return JitRefusal(JitObstacle.NO_CALL, f"{line[0]}:{line[1]}")
    return None if calls else JitRefusal(JitObstacle.NO_CALL, "an unknown line")


def _leftover(site: GlobalSite, calls: dict[ast.Call, File]) -> JitRefusal | None:
    """A use of devices, in the functions that change, that the run did not reach.

    Numbers of rows or of devices are known when a step is traced: they are added to `calls`.
    """
    functions = {
        around: file
        for call, file in calls.items()
        for around in file.index.ancestors(call)
        if isinstance(around, FUNCTIONS)
    }
    if site.function is not None and isinstance(site.function.node, FUNCTIONS):
        functions[site.function.node] = site.function.file
    for function, file in functions.items():
        for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
            if call in calls or file.called(call) not in _NEEDS_DEVICES:
                continue
            if file.called(call) != _AXIS_SIZE and not _is_count(file, call):
                return JitRefusal(JitObstacle.NOT_REACHED, NodePlace(file, call))
            calls[call] = file
    return None


def _is_count(file: File, call: ast.Call) -> bool:
    """Whether a call of psum sums a number that is the same on all devices."""
    operand = _operand(call)
    if isinstance(operand, ast.Subscript):
        operand = operand.value
    is_shape = isinstance(operand, ast.Attribute) and operand.attr in ("shape", "size")
    is_number = isinstance(operand, ast.Constant) or file.called(operand) == "builtins.len"
    return file.called(call) == "jax.lax.psum" and (is_shape or is_number)


def _shared(
    program: FollowedProgram, steps: dict[GlobalSite, JitStep]
) -> tuple[GlobalSite, JitRefusal] | None:
    """A chosen site with a collective in a function that something else uses.

    The functions of the chosen sites may use it, and others that have a collective of theirs.
    """
    holders = [_functions_with(site, step) for site, step in steps.items()]
    inside: set[ast.AST] = {one.node for functions in holders for one in functions}
    inside |= {site.options.operand for site in steps if site.options.operand is not None}
    inside |= {site.node for site in steps}
    for site, functions in zip(steps, holders, strict=True):
        for function in functions:
            for file, node in _mentions(program, function):
                if inside.isdisjoint((node, *file.index.ancestors(node))):
                    name = getattr(function.node, "name", "the function")
                    said = f"{name}, which has a collective, is used at {NodePlace(file, node)}"
                    return site, JitRefusal(JitObstacle.SHARED, said)
    return None


def _functions_with(site: GlobalSite, step: JitStep) -> list[Known]:
    """The mapped function, and those that the removed collectives stand in."""
    around = [
        Known(one, file)
        for call, file in step.collectives.items()
        for one in file.index.ancestors(call)
        if isinstance(one, FUNCTIONS)
    ]
    return [*([site.function] if site.function is not None else []), *around]


def _mentions(program: FollowedProgram, function: Known) -> Iterator[tuple[File, ast.AST]]:
    name = getattr(function.node, "name", None)
    for file in program.files:
        nodes = [*file.index.nodes(ast.Name), *file.index.nodes(ast.Attribute)]
        for node in nodes if name is not None and name in file.source.text else ():
            is_named = name in (getattr(node, "id", None), getattr(node, "attr", None))
            is_read = isinstance(node.ctx, ast.Load)  # type: ignore[attr-defined]
            if is_named and is_read and function in file.values(node):
                yield file, node


# ---- edits


def rewrites(site: GlobalSite, step: JitStep, meshes: Meshes) -> Iterator[tuple[File, Match]]:
    """The changes of a site, and of the collectives in its step."""
    yield site.file, _site(site, step, meshes)
    for call, file in step.collectives.items():
        yield file, Match(call, "", tuple(_without(file, call)), kind=Kind.DEVICE_AXIS)


def _site(site: GlobalSite, step: JitStep, meshes: Meshes) -> Match:
    file, style = site.file, Style.of(site.file.source.text)
    form, helpers = _form(site, step, meshes)
    edits = shard_map_sites.edits_of(file, site.node, site.options.operand, form, style)
    return Match(site.node, "", edits, imports_of(site), helpers, kind=Kind.SITE)


def _form(
    site: GlobalSite, step: JitStep, meshes: Meshes
) -> tuple[CallForm, frozenset[HelperRequest]]:
    """`jax.jit` with shardings; where an import would touch devices, the helper that waits."""
    file, jax = site.file, jax_name(site.file)[0]
    axis = site.options.text("axis_name") or ""
    specs = [spec(layout, jax, axis) for layout in step.layouts]
    if runs_at_import(file, site.node) and not meshes.is_variable(file, site.axis_name):
        inner = (listed("in_specs", specs), *donation(site))
        form = CallForm(inner, (), axis, name=HELPER, is_jitted=False)
        return form, frozenset({HelperRequest(HELPER)})
    mesh = meshes.text(file, site.axis_name, axis)
    inputs = [f"{jax}.NamedSharding({mesh}, {spec})" for spec in specs]
    output = f"out_shardings={jax}.NamedSharding({mesh}, {jax}.P())"
    form = CallForm(
        (listed("in_shardings", inputs), output, *donation(site)),
        (),
        None,
        name=f"{jax}.jit",
        is_jitted=False,
    )
    return form, needs_helper(mesh)


def _without(file: File, call: ast.Call) -> list[Edit]:
    """`pmean(x, "batch")` becomes `x`; an assignment of a name to itself is removed."""
    if file.called(call) == _AXIS_SIZE:
        return [file.replace(call, "1")]
    inner = _operand(call)
    assert inner is not None
    statement = file.index.parents.get(call)
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        same = isinstance(target, ast.Name) and isinstance(inner, ast.Name)
        if same and target.id == inner.id and not is_only_statement(file, statement):  # type: ignore[attr-defined]
            return [delete(file, statement)]
    return text_around(file, call, inner)
