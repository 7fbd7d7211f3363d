"""Which sites become `jax.jit` over the whole batch, and the edits of their files."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from shardlift.migrate import sites as shard_map_sites
from shardlift.migrate.call_format import Argument, CallText, Style
from shardlift.migrate.device_axis.cells import Key, Place
from shardlift.migrate.device_axis.comments import comments_above
from shardlift.migrate.device_axis.failures import PLEASE_REPORT, blame
from shardlift.migrate.device_axis.mesh import Meshes, needs_helper, runs_at_import
from shardlift.migrate.device_axis.program import Program
from shardlift.migrate.device_axis.sites import Site
from shardlift.migrate.device_axis.solve import Decision, Layout
from shardlift.migrate.forms import Form
from shardlift.migrate.names import is_shadowed, jax_name, partial_name
from shardlift.migrate.whole_batch import calls, expressions, statements  # noqa: F401
from shardlift.migrate.whole_batch.body import Body, Scope
from shardlift.migrate.whole_batch.kinds import Kind
from shardlift.migrate.whole_batch.values import (
    Code,
    Frame,
    RefusalError,
    Tree,
    Value,
    is_same,
    kinds,
    part,
)
from shardlift.source.file import File
from shardlift.source.model import Edit, HelperRequest, Match
from shardlift.source.model import Kind as ChangeKind
from shardlift.source.scopes import FUNCTIONS, end, position
from shardlift.source.statements import delete, is_only_statement
from shardlift.source.values import Known

HELPER = "jit_over_devices"
_KINDS = {Layout.WHOLE: Kind.SAME, Layout.GLOBAL: Kind.ROWS}


@dataclass(frozen=True, eq=False)
class Step:
    """A mapped function that was followed: what it returns, and the collectives in it."""

    layouts: tuple[Layout, ...]  # of the arguments
    output: Value
    removed: dict[ast.Call, File] = field(repr=False)
    followed: dict[ast.AST, File] = field(repr=False)


@dataclass
class Steps:
    """The steps of a program, each followed once for the layouts of its arguments."""

    _followed: dict[tuple[Site, tuple[Layout, ...]], Step | str] = field(default_factory=dict)

    def follow(self, site: Site, layouts: tuple[Layout, ...]) -> Step | str:
        """The step of a site, or the reason why it is not understood."""
        key = site, layouts
        if key not in self._followed:
            try:
                self._followed[key] = _follow(site, layouts)
            except RefusalError as error:
                self._followed[key] = str(error)
            except Exception as error:  # a bug in shardlift
                self._followed[key] = f"{PLEASE_REPORT}: {error!r}"
        return self._followed[key]

    def obstacle(self, site: Site) -> str | None:
        """Why a site is not understood, if it is not because of the layouts of its arguments."""
        for (followed, layouts), step in self._followed.items():
            if followed is site and Layout.STACKED not in layouts:
                return step if isinstance(step, str) else _varying(step)
        return None

    def proves(self, decision: Decision, site: Site, path: tuple[Key, ...]) -> bool:
        """Whether the text proves that a part of the output is the same on all devices."""
        step = self.follow(site, _layouts(site, decision))
        if isinstance(step, str):
            return False
        found: Value | None = step.output
        for key in path:
            found = part(found, key) if found is not None else None
        return found is not None and is_same([found])


def _layouts(site: Site, decision: Decision) -> tuple[Layout, ...]:
    return tuple(decision.argument(site, k) for k in range(site.arguments or 0))


def _follow(site: Site, layouts: tuple[Layout, ...]) -> Step:
    at = Place(site.file, site.node)
    if site.function is None or site.axis_name is None:
        raise RefusalError(at, "the function or its axis name is not known")
    for number, layout in enumerate(layouts):
        if layout not in _KINDS:
            raise RefusalError(at, f"argument {number} keeps its device axis")
    body = Body(site.axis_name, site.node)
    code = _code(site, body)
    args = [Tree(_KINDS[layout]) for layout in layouts]
    output = body.run(code, at, args, {})
    return Step(layouts, output, body.removed, body.followed)


def _code(site: Site, body: Body) -> Code:
    """The function that a site maps, with the arguments that a partial gives it."""
    function, operand = site.function, site.options.operand
    assert function is not None
    if operand is None and isinstance(function.node, FUNCTIONS):
        return Code(function.node, function.file)
    code = Scope(body, site.file, Frame()).value(operand) if operand is not None else None
    is_method = isinstance(function.file.index.parents.get(function.node), ast.ClassDef)
    if not isinstance(code, Code) or code.node is not function.node or is_method:
        raise RefusalError(Place(site.file, site.node), "what it maps is not a plain function")
    return code


def choose(program: Program, decision: Decision, steps: Steps) -> dict[Site, Step | str]:
    """The sites that become jit of the whole batch; the others, with the reason."""
    chosen: dict[Site, Step | str] = {}
    for site in program.sites.values():
        if decision.obstacle(site) is None and site.results:
            with blame(site.file):
                why = steps.obstacle(site) or _cannot_be_written(site, decision)
                chosen[site] = why or _step(site, decision, steps)
    while (withdrawn := _shared(program, chosen)) is not None:
        chosen[withdrawn[0]] = withdrawn[1]
    return chosen


def _step(site: Site, decision: Decision, steps: Steps) -> Step | str:
    step = steps.follow(site, _layouts(site, decision))
    if isinstance(step, str):
        return step
    commented = [call for call, file in step.removed.items() if "#" in file.text(call)]
    if commented:
        return f"there are comments inside `{step.removed[commented[0]].brief(commented[0])}`"
    return _varying(step) or step


def _varying(step: Step) -> str | None:
    varying = [kind for kind in kinds(step.output) if kind is not Kind.SAME]
    return f"it returns {varying[0]}" if varying else None


def _cannot_be_written(site: Site, decision: Decision) -> str | None:
    if any(layout is not Layout.WHOLE for layout in decision.outputs(site)):
        return "an output keeps its device axis"
    if site.static:
        return "it has static arguments"
    if site.file.many_processes:
        return "the program runs in many processes"
    if site.has_keywords or site.named:
        return "it is called with keyword arguments"
    if is_shadowed(site.file, site.node, HELPER):
        return f"the name `{HELPER}` means something else here"
    return None


def _shared(program: Program, chosen: dict[Site, Step | str]) -> tuple[Site, str] | None:
    """A chosen site with a collective in a function that others use as it is."""
    steps = {site: step for site, step in chosen.items() if isinstance(step, Step)}
    followed = {node for step in steps.values() for node in step.followed}
    operands = {id(site.options.operand) for site in steps}
    for site, step in steps.items():
        for function in _functions_with(step):
            for file, node in _mentions(program, function):
                around = [one for one in file.index.ancestors(node) if isinstance(one, FUNCTIONS)]
                if id(node) not in operands and not any(one in followed for one in around):
                    name = getattr(function.node, "name", "the function")
                    return site, f"{name}, which has a collective, is used at {Place(file, node)}"
    return None


def _functions_with(step: Step) -> Iterator[Known]:
    """The functions that the removed collectives stand in."""
    for call, file in step.removed.items():
        for around in file.index.ancestors(call):
            if isinstance(around, FUNCTIONS):
                yield Known(around, file)


def _mentions(program: Program, function: Known) -> Iterator[tuple[File, ast.AST]]:
    name = getattr(function.node, "name", None)
    for file in program.files:
        if name is None or name not in file.source.text:
            continue
        named = [node for node in file.index.nodes(ast.Name) if node.id == name]
        dotted = [node for node in file.index.nodes(ast.Attribute) if node.attr == name]
        uses: list[ast.Name | ast.Attribute] = [*named, *dotted]
        for node in uses:
            if isinstance(node.ctx, ast.Load) and function in file.values(node):
                yield file, node


# ---- edits


def rewrites(site: Site, step: Step, meshes: Meshes) -> Iterator[tuple[File, Match]]:
    """The changes of a site, and of the collectives in its step."""
    yield site.file, _site(site, step, meshes)
    for call, file in step.removed.items():
        yield file, Match(call, "", tuple(_without(file, call)), kind=ChangeKind.DEVICE_AXIS)


def _site(site: Site, step: Step, meshes: Meshes) -> Match:
    file, style = site.file, Style.of(site.file.source.text)
    imports = jax_name(file)[1]
    form, helpers = _form(site, step, meshes)
    edits = shard_map_sites.edits_of(file, site.node, site.options.operand, form, style)
    edits += comments_above(site)
    if site.options.operand is None and not isinstance(site.node, ast.Call):  # @jax.pmap
        imports |= partial_name(file)[1]
    return Match(site.node, "", edits, imports, helpers, kind=ChangeKind.SITE)


def _form(site: Site, step: Step, meshes: Meshes) -> tuple[Form, frozenset[HelperRequest]]:
    """`jax.jit` with shardings; where an import would touch devices, the helper that waits."""
    file, jax = site.file, jax_name(site.file)[0]
    axis = site.options.text("axis_name") or ""
    specs = [f"{jax}.P()" if one is Layout.WHOLE else f"{jax}.P({axis})" for one in step.layouts]
    donated = site.options.text("donate_argnums")
    options = (f"donate_argnums={donated}",) if donated and donated not in ("()", "[]") else ()
    if runs_at_import(file, site.node) and not meshes.is_variable(file, site.axis_name):
        inner = (_listed("in_specs", specs), *options)
        form = Form(inner, (), axis, name=HELPER, is_jitted=False)
        return form, frozenset({HelperRequest(HELPER)})
    mesh = meshes.text(file, site.axis_name, axis)
    inputs = [f"{jax}.NamedSharding({mesh}, {spec})" for spec in specs]
    output = f"out_shardings={jax}.NamedSharding({mesh}, {jax}.P())"
    form = Form(
        (_listed("in_shardings", inputs), output, *options),
        (),
        None,
        name=f"{jax}.jit",
        is_jitted=False,
    )
    return form, needs_helper(mesh)


def _listed(name: str, texts: Sequence[str]) -> Argument:
    return f"{name}=({texts[0]},)" if len(texts) == 1 else CallText(f"{name}=", tuple(texts))


def _without(file: File, call: ast.Call) -> list[Edit]:
    """`pmean(x, "batch")` becomes `x`; an assignment of a name to itself is removed."""
    inner = call.args[0]
    statement = file.index.parents.get(call)
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        same = isinstance(target, ast.Name) and isinstance(inner, ast.Name)
        if same and target.id == inner.id and not is_only_statement(file, statement):  # type: ignore[attr-defined]
            return [delete(file, statement)]
    opening, closing = ("", "") if isinstance(inner, _SIMPLE) else ("(", ")")
    return [
        Edit(file.stretch(*position(call), *position(inner)), opening),
        Edit(file.stretch(*end(inner), *end(call)), closing),
    ]


_SIMPLE = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant, ast.Dict, ast.List)
