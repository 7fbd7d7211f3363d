"""The edits that follow from the layouts: of sites, and of places that make or read arrays."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from shardlift.capture import schema
from shardlift.migrate import sites as shard_map_sites
from shardlift.migrate.call_format import Argument, Style
from shardlift.migrate.changes import ChangeId, Decisions, notebook_id
from shardlift.migrate.device_axis import mesh, plain, process_arrays, spelling, state_sites
from shardlift.migrate.device_axis import strict as checked
from shardlift.migrate.device_axis.cells import Cell, Place, Point, Role, open_trees
from shardlift.migrate.device_axis.comments import comments_above
from shardlift.migrate.device_axis.failures import PLEASE_REPORT, NotFollowedError, blame
from shardlift.migrate.device_axis.flow import follow_values
from shardlift.migrate.device_axis.keywords import unnamed_calls, unnamed_operand
from shardlift.migrate.device_axis.mesh import Meshes
from shardlift.migrate.device_axis.program import Program
from shardlift.migrate.device_axis.reasons import Change
from shardlift.migrate.device_axis.sites import Site
from shardlift.migrate.device_axis.solve import (
    Decision,
    Finding,
    Layout,
    decide,
    findings,
    sites_of,
)
from shardlift.migrate.device_axis.specs import specs_of
from shardlift.migrate.device_axis.states import split_states
from shardlift.migrate.forms import DEFAULT_NAME, Form
from shardlift.migrate.goal import Goal
from shardlift.migrate.helpers import PLAIN
from shardlift.migrate.names import is_shadowed, jax_name, partial_name
from shardlift.migrate.whole_batch.rewrites import Step, Steps, choose, rewrites
from shardlift.source.file import File
from shardlift.source.flax_helpers import prefetch_splits
from shardlift.source.model import HelperRequest, Kind, Match

ON_DEVICES = "shard_map_on_devices"
HOST_LOCAL = "host_local_arrays"


@dataclass
class Plan:
    """The changes of each file, and what keeps its device axis."""

    rewrites: dict[str, list[Match]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    loose: list[Finding] = field(default_factory=list)  # sites without check_vma, and why

    def add(self, file: File, rewrite: Match) -> None:
        """Add a change of a file."""
        self.rewrites.setdefault(file.path, []).append(rewrite)

    def add_once(self, rewrites: Iterable[tuple[File, Match]]) -> None:
        """Add changes, unless a change of the same node is there already."""
        for file, rewrite in rewrites:
            if rewrite.node not in {one.node for one in self.rewrites.get(file.path, [])}:
                self.add(file, rewrite)


def analyse(
    files: Iterable[File],
    captures: Sequence[schema.Capture] = (),
    lost: Mapping[File, Exception] = MappingProxyType({}),
) -> Program:
    """Follow the values of a program whose files these are, without those that are lost."""
    files = list(files)
    while True:
        try:
            return _analyse(files, captures, lost)
        except NotFollowedError as error:
            if error.file in lost:
                raise
            lost = {**lost, error.file: error.cause}


def _analyse(
    files: Sequence[File], captures: Sequence[schema.Capture], lost: Mapping[File, Exception]
) -> Program:
    program = Program(files, captures, lost)
    for site in program.sites.values():
        with blame(site.file):
            site.obstacles += _cannot_be_written(site)
    if program.sites:
        follow_values(program)
    return program


def _with_states(program: Program, decide: Callable[[Program], Decision]) -> Program:
    """The same program with the fields of its states apart, as far as that can be written."""
    candidates = state_sites.find_candidates(program, decide(program))
    while candidates:
        with open_trees() as trees:
            split = _analyse(program.files, program.captures, program.lost)
        failed = split_states(split, trees, candidates)
        if not failed:
            failed = state_sites.not_written(split, decide(split))
        if not failed:
            return split
        candidates = [one for one in candidates if one not in failed]
    return program


def plan(program: Program, decided: Decisions = Decisions(), goal: Goal = Goal.GLOBAL) -> Plan:
    """The changes of a program, for one choice of them.

    The layouts are decided anew for each choice, since a site that is left as it is keeps the
    arrays that it takes and gives stacked, and so those of every other site that shares them. The
    values are followed once, by `analyse`: that does not depend on the choice. Raises
    NotFollowedError if a file cannot be written.
    """
    sites = program.sites.values()
    left = {
        site.node: decided.left[change]
        for site in sites
        if (change := _identity(site)) in decided.left
    }
    while True:
        try:
            return _plan(program, decided, goal, left)
        except _NotWrittenError as error:
            nodes = [site.node for site in error.sites]
            left |= dict.fromkeys(nodes, f"{PLEASE_REPORT}: {error.cause!r}")


class _NotWrittenError(Exception):
    """A bug of shardlift, in the text of some sites or of the arrays that they share."""

    def __init__(self, sites: Sequence[Site], cause: Exception) -> None:
        super().__init__()
        self.sites = sites
        self.cause = cause


@contextlib.contextmanager
def _writing(sites: Sequence[Site]) -> Iterator[None]:
    try:
        yield
    except NotFollowedError:
        raise
    except Exception as error:
        raise _NotWrittenError(sites, error) from error


def _plan(program: Program, decided: Decisions, goal: Goal, left: Mapping[ast.expr, str]) -> Plan:
    steps = Steps()

    def decided_of(one: Program) -> Decision:
        kept = {one.sites[node]: why for node, why in left.items()}
        return decide(one, kept, *([steps.proves] if goal is Goal.JIT else []))

    if goal is not Goal.JIT:
        program = _with_states(program, decided_of)
    decision = decided_of(program)
    found, meshes = Plan(findings=findings(program, decision)), Meshes(program, decision)
    decision.apart = process_arrays.keeps_apart(program, decision, meshes)
    jitted = choose(program, decision, steps) if goal is Goal.JIT else {}
    for site in program.sites.values():
        step = jitted.get(site)
        with _writing([site]):
            if isinstance(step, Step):
                found.add_once(rewrites(site, step, meshes))
            elif decision.is_changed(site) or _is_plain(program, site, decision):
                _rewrite_site(found, program, site, decision, decided, meshes)
        if isinstance(step, str):
            text = f"{site.name} is not rewritten to jax.jit of the whole batch: {step}"
            found.findings.append(Finding(Place(site.file, site.node), text))
    for key, root in decision.classes.items():
        layout = decision.layouts[key]
        if layout is not Layout.STACKED:
            with _writing(sites_of(root)):
                _rewrite_class(found, program, decision, root, layout, meshes)
    for file, definition in meshes.definitions():
        found.rewrites.setdefault(file.path, []).insert(0, definition)  # above moved comments
    return found


def _is_plain(program: Program, site: Site, decision: Decision) -> bool:
    """Whether a site whose arrays all stay stacked needs no helper."""
    is_plain = decision.may_be_plain(site) and plain.is_free_of_helpers(site)
    return is_plain and plain.needs_rows_helper(program, site, decision) is None


def _identity(site: Site) -> ChangeId:
    if site.file.source.cells is not None:
        return notebook_id(site.file.path)
    span = site.file.span(site.node)
    return ChangeId(site.file.path, span.line, span.column, Kind.SITE)


def _rewrite_site(
    found: Plan,
    program: Program,
    site: Site,
    decision: Decision,
    decided: Decisions,
    meshes: Meshes,
) -> None:
    why = None
    if decided.strict_vma:
        why = decided.loose.get(_identity(site)) or checked.obstacle(site, decision)
    if why is not None:
        text = f"check_vma stays off at {site.name}: {why}"
        found.loose.append(Finding(Place(site.file, site.node), text))
    strict = decided.strict_vma and why is None
    reason = plain.needs_rows_helper(program, site, decision)
    if reason is None:
        found.add(site.file, _plain_site(program, site, decision, meshes, strict))
        if site.file.many_processes:
            for file, match in process_arrays.join_parts(decision, site, meshes):
                found.add(file, match)
    else:
        found.add(site.file, _site(site, decision, strict))
        if reason.change is not Change.NOT_EXACT:  # which the user has asked for
            text = f"{site.name} keeps a helper around it: {reason}"
            found.findings.append(Finding(Place(site.file, site.node), text))
    found.add_once(unnamed_calls(site))
    if strict:
        found.add_once(checked.casts(site, decision))


def _cannot_be_written(site: Site) -> Iterable[str]:
    file = site.file
    for name in (jax_name(file)[0], ON_DEVICES, HOST_LOCAL, plain.AT_CALL, mesh.HELPER):
        if is_shadowed(file, site.node, name):
            yield f"the name `{name}` means something else here: rename that"


def _rewrite_class(
    found: Plan, program: Program, decision: Decision, root: Cell, layout: Layout, meshes: Meshes
) -> None:
    """The places that make and use the values of a class, each once."""
    own = [point for point in root.points if not point.of_state]
    points = {(point.at.node, point.role): point for point in reversed(own)}
    for point in reversed(points.values()):
        rewrite = _rewrite(program, decision, root, point, layout, meshes)
        if rewrite is not None:
            found.add(point.at.file, rewrite)


def _rewrite(
    program: Program, decision: Decision, root: Cell, point: Point, layout: Layout, meshes: Meshes
) -> Match | None:
    node, role = point.at.node, point.role
    imports, helpers = frozenset[str](), frozenset[HelperRequest]()
    if layout is Layout.MIXED:
        is_given = role is Role.FIRST and _is_given_away(program, root, point)
        return state_sites.rewrite(decision, root, point, meshes, _axis_name(root), is_given)
    if role is Role.REPLICATE and layout is Layout.WHOLE:
        return _replicated(decision, root, point, meshes)
    if role is Role.SHARD:
        edits = spelling.unsharded(point)
    elif role in (Role.FIRST, Role.INDEX):
        is_shared = point.at.file.many_processes and decision.apart is None
        edits, imports = spelling.first(point, _is_given_away(program, root, point), is_shared)
    elif role is Role.METRICS:
        edits, imports = spelling.metrics(point)
    elif role is Role.PREFETCH and not prefetch_splits(point.at.file.project.settings):
        edits = spelling.prefetched(point)
        helpers = frozenset({HelperRequest(spelling.PREFETCH)})
    else:
        return None
    return Match(node, "", tuple(edits), imports, helpers, kind=Kind.DEVICE_AXIS)


def _replicated(decision: Decision, root: Cell, point: Point, meshes: Meshes) -> Match:
    """A copy of a tree on every device."""
    file, node = point.at.file, point.at.node
    settings = file.project.settings
    if settings.exact or (file.many_processes and decision.apart):
        edits = spelling.replicated(point, _axis_name(root))
        helpers = frozenset({HelperRequest(spelling.PUT)})
        return Match(node, "", tuple(edits), helpers=helpers, kind=Kind.DEVICE_AXIS)
    axis = _axis_name(root) or meshes.default_axis
    written = Style.of(file.source.text).string(axis)
    sharding = meshes.sharding(file, axis, written, split=False)
    if not spelling.fits_on_a_line(point, sharding):
        sharding = meshes.named(file, axis, sharding, "replicated")
    edits, imports = spelling.placed(point, sharding)
    helpers = mesh.needs_helper(meshes.text(file, axis, written))
    return Match(node, "", tuple(edits), imports, helpers, kind=Kind.DEVICE_AXIS)


def _is_given_away(program: Program, root: Cell, point: Point) -> bool:
    """Whether what is read may be donated while somebody still has it."""
    if not _is_donated(root):
        return False
    if any(use.of_state for use in root.uses):  # the state has other names
        return True
    if program.is_last_use(root, point.at.file, point.at.node):
        return False
    return not (spelling.assigns_to_itself(point) and program.has_one_name(root, point.at))


def _is_donated(root: Cell) -> bool:
    return any(
        use.site is not None and use.role is Role.ARGUMENT and use.position in use.site.donated
        for use in root.uses
    )


def _axis_name(root: Cell) -> str | None:
    """The axis name of a site that takes these values."""
    sites = (use.site for use in root.uses if use.site is not None)
    named = (site.axis_name for site in sites if "axis_name" in site.options.keywords)
    return next(named, None)


def _plain_site(
    program: Program, site: Site, decision: Decision, meshes: Meshes, strict: bool
) -> Match:
    """`jax.jit(jax.shard_map(...))`, with a spec per argument and output."""
    file, style = site.file, Style.of(site.file.source.text)
    if plain.needs_wrapper(program, site, decision):
        return _wrapped_site(program, site, decision, meshes, strict)
    form, helpers = plain.plain_form(site, decision, meshes, _donation(site), strict)
    edits = shard_map_sites.edits_of(
        file, site.node, site.options.operand, form, style, unnamed_operand(site)
    )
    edits += (*plain.row_edits(program, site, decision), *comments_above(site))
    return Match(site.node, "", edits, _imports(site), helpers, kind=Kind.SITE)


def _wrapped_site(
    program: Program, site: Site, decision: Decision, meshes: Meshes, strict: bool
) -> Match:
    """The same with a lambda around the function."""
    form, helpers = plain.mapping_form(site, decision, meshes, _donation(site), strict)
    wrapper = plain.wrapper_of(program, site, decision)
    assert wrapper is not None
    call = wrapper.call(jax_name(site.file)[0], form.inner, form.outer)
    text = spelling.laid_out(site.file, site.node, call)
    rows = plain.row_edits(program, site, decision)
    edits = (site.file.replace(site.node, text), *rows, *comments_above(site))
    return Match(site.node, "", edits, _imports(site), helpers, kind=Kind.SITE)


def _site(site: Site, decision: Decision, strict: bool) -> Match:
    """`jax.jit(shard_map_on_devices(...))`, with a spec per argument and output."""
    file, style = site.file, Style.of(site.file.source.text)
    axis = site.options.text("axis_name") or style.string(DEFAULT_NAME)
    inputs = [decision.argument(site, k) for k in range(site.arguments or 0)]
    static = (f"static_argnums={site.static}",) if site.static else ()
    inner: tuple[Argument, ...] = (
        *specs_of(site, decision, axis),
        *_rows("row_args", inputs),
        *_rows("row_outputs", decision.outputs(site)),
        *static,
        *(("check_vma=True",) if strict else ()),
    )
    outer = (*static, *_donation(site))
    form = Form(inner, outer, axis, name=ON_DEVICES, host_local=HOST_LOCAL)
    edits = shard_map_sites.edits_of(
        file, site.node, site.options.operand, form, style, unnamed_operand(site)
    )
    edits += comments_above(site)
    return Match(site.node, "", edits, _imports(site), _helpers(site, strict), kind=Kind.SITE)


def _donation(site: Site) -> tuple[str, ...]:
    donated = site.options.text("donate_argnums")
    return (f"donate_argnums={donated}",) if donated and donated not in ("()", "[]") else ()


def _imports(site: Site) -> frozenset[str]:
    imports = jax_name(site.file)[1]
    if site.options.operand is None and not isinstance(site.node, ast.Call):  # @jax.pmap
        imports |= partial_name(site.file)[1]
    return imports


def _helpers(site: Site, strict: bool) -> frozenset[HelperRequest]:
    if site.file.many_processes or strict or site.static:
        around = [HelperRequest(HOST_LOCAL)] if site.file.many_processes else []
        return frozenset({HelperRequest(ON_DEVICES), *around})
    lifetime = shard_map_sites.lifetime(site.file, site.node, site.options.operand)
    return frozenset({HelperRequest(ON_DEVICES, frozenset({PLAIN, *lifetime}))})


def _rows(name: str, layouts: list[Layout]) -> list[str]:
    """The option that lists which arguments or outputs have one row per device."""
    rows = tuple(k for k, layout in enumerate(layouts) if layout is Layout.STACKED)
    return [f"{name}={rows}"] if rows else []
