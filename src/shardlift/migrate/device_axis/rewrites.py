"""The edits of all files that follow from the layouts: sites, makers and readers of arrays."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

from shardlift.capture import schema
from shardlift.migrate import sites as shard_map_sites
from shardlift.migrate.call_format import Argument, CallText, Style
from shardlift.migrate.changes import ChangeId, Decisions
from shardlift.migrate.device_axis import spelling
from shardlift.migrate.device_axis import strict as checked
from shardlift.migrate.device_axis.cells import Cell, Made, Place, Use, find
from shardlift.migrate.device_axis.program import Program
from shardlift.migrate.device_axis.sites import Site
from shardlift.migrate.device_axis.solve import Decision, Finding, Layout, decide, findings
from shardlift.migrate.device_axis.statements import walk_file
from shardlift.migrate.forms import DEFAULT_NAME, Form
from shardlift.migrate.names import is_shadowed, jax_name, partial_name
from shardlift.source.file import File
from shardlift.source.model import Kind, Match

ON_DEVICES = "shard_map_on_devices"
HOST_LOCAL = "host_local_arrays"
_match = partial(Match, kind=Kind.DEVICE_AXIS)


@dataclass
class Plan:
    """What is to be done to each file, and what keeps its device axis."""

    rewrites: dict[str, list[Match]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    loose: list[Finding] = field(default_factory=list)  # sites without check_vma, and why

    def add(self, file: File, rewrite: Match) -> None:
        """One more change of a file."""
        self.rewrites.setdefault(file.path, []).append(rewrite)


def plan(
    files: Iterable[File], facts: schema.Capture | None, decisions: Decisions | None = None
) -> Plan:
    """The changes of a program whose files these are."""
    decided = decisions or Decisions()
    program = Program(files, facts)
    if not program.sites:
        return Plan()
    for site in program.sites.values():
        site.obstacles += _cannot_be_written(site)
        if (change := _identity(site)) in decided.left:
            site.obstacles.append(decided.left[change])
    for file in program.files:
        walk_file(program, file)
    program.close()
    program.settle()
    program.note_handed_on()
    decision = decide(program)
    found = Plan(findings=findings(program, decision))
    for site in program.sites.values():
        if decision.is_changed(site):
            _write_site(found, site, decision, decided)
    for key, root in decision.classes.items():
        layout = decision.layouts[key]
        if layout is not Layout.STACKED:
            _class(found, program, root, layout)
    return found


def _identity(site: Site) -> ChangeId:
    span = site.file.span(site.node)
    return ChangeId(site.file.path, span.line, span.column, Kind.SITE)


def _write_site(found: Plan, site: Site, decision: Decision, decided: Decisions) -> None:
    why = None
    if decided.strict_vma:
        why = decided.loose.get(_identity(site)) or checked.obstacle(site, decision)
    if why is not None:
        text = f"check_vma stays off at {site.name}: {why}"
        found.loose.append(Finding(Place(site.file, site.node), text))
    strict = decided.strict_vma and why is None
    found.add(site.file, _site(site, decision, strict))
    for file, rewrite in checked.casts(site, decision) if strict else ():
        if rewrite.node not in {one.node for one in found.rewrites.get(file.path, [])}:
            found.add(file, rewrite)


def _cannot_be_written(site: Site) -> Iterable[str]:
    file = site.file
    for name in (jax_name(file)[0], ON_DEVICES, HOST_LOCAL):
        if is_shadowed(file, site.node, name):
            yield f"the name `{name}` means something else here"
    if shard_map_sites.has_comments(file, site.node, site.options.operand):
        yield "there are comments between its arguments"


def _class(found: Plan, program: Program, root: Cell, layout: Layout) -> None:
    donated = any(
        use.site is not None and use.kind == "argument" and use.position in use.site.donated
        for use in root.uses
    )
    for thing in _once([*root.made, *root.uses]):
        file, node = thing.at.file, thing.at.node
        if thing.kind == "replicate" and layout is Layout.WHOLE:
            assert isinstance(thing, Made)
            edits = spelling.replicated(thing, *_axis(root))
            found.add(
                file,
                Match(
                    node, "", tuple(edits), helpers=frozenset({spelling.PUT}), kind=Kind.DEVICE_AXIS
                ),
            )
        elif thing.kind == "shard":
            assert isinstance(thing, Made)
            found.add(file, _match(node, "", tuple(spelling.unsharded(thing))))
        elif thing.kind in ("first", "index"):
            assert isinstance(thing, Use)
            given_away = donated and not program.is_last_use(root, file, node)
            edits, imports = spelling.first(thing, given_away)
            found.add(file, _match(node, "", tuple(edits), imports))
        elif thing.kind == "metrics":
            assert isinstance(thing, Use)
            edits, imports = spelling.metrics(thing)
            found.add(file, _match(node, "", tuple(edits), imports))
        elif thing.kind == "prefetch":
            assert isinstance(thing, Use)
            helpers = frozenset({spelling.PREFETCH})
            found.add(
                file,
                Match(
                    node,
                    "",
                    tuple(spelling.prefetched(thing)),
                    helpers=helpers,
                    kind=Kind.DEVICE_AXIS,
                ),
            )


def _once(things: list[Made | Use]) -> list[Made | Use]:
    """Each place once: a call may be seen on several ways through the program."""
    seen: dict[tuple[ast.AST, str], Made | Use] = {}
    for thing in things:
        seen.setdefault((thing.at.node, thing.kind), thing)
    return list(seen.values())


def _axis(root: Cell) -> tuple[ast.expr | None, File | None]:
    """The axis name of a site that takes these values."""
    for use in root.uses:
        if use.site is not None and "axis_name" in use.site.options.keywords:
            return use.site.options.keywords["axis_name"], use.site.file
    return None, None


def _site(site: Site, decision: Decision, strict: bool) -> Match:
    """jit of shard_map_on_devices, with a spec for each argument and output."""
    file, style = site.file, Style.of(site.file.source.text)
    jax, imports = jax_name(file)
    axis = site.options.text("axis_name") or style.string(DEFAULT_NAME)
    count = site.arguments or 0
    inputs = [decision.argument(site, k) for k in range(count)]
    cell = find(site.results[0])
    length = None if cell.collapsed else site.length()
    numbers: list[int | None] = [None] if length is None else list(range(length))
    outputs = [decision.output(site, n) for n in numbers]
    inner: list[Argument] = [_specs("in_specs", inputs, jax, axis, True, site.static)]
    inner.append(_specs("out_specs", outputs, jax, axis, False))
    rows = [k for k, one in enumerate(inputs) if one is Layout.STACKED]
    given = [k for k, one in enumerate(outputs) if one is Layout.STACKED]
    inner += [f"row_args={_numbers(rows)}"] if rows else []
    inner += [f"row_outputs={_numbers(given)}"] if given else []
    static = [f"static_argnums={_numbers(list(site.static))}"] if site.static else []
    inner += static
    inner += ["check_vma=True"] if strict else []
    donated = site.options.text("donate_argnums")
    outer = [f"donate_argnums={donated}"] if donated and donated not in ("()", "[]") else []
    form = Form(tuple(inner), (*static, *outer), axis, name=ON_DEVICES, host_local=HOST_LOCAL)
    edits = shard_map_sites.edits_of(file, site.node, site.options.operand, form, style)
    if site.options.operand is None and not isinstance(site.node, ast.Call):  # @jax.pmap
        imports |= partial_name(file)[1]
    return Match(site.node, "", edits, imports, _helpers(site, strict), kind=Kind.SITE)


def _helpers(site: Site, strict: bool) -> frozenset[str]:
    if site.file.many_processes or strict or site.static:
        return frozenset({ON_DEVICES, *([HOST_LOCAL] if site.file.many_processes else [])})
    lifetime = shard_map_sites.lifetime(site.file, site.node, site.options.operand)
    return frozenset({f"{ON_DEVICES}[plain, {lifetime}]"})


def _specs(
    name: str,
    layouts: list[Layout],
    jax: str,
    axis: str,
    always: bool,
    static: tuple[int, ...] = (),
) -> Argument:
    texts = [f"{jax}.P()" if one is Layout.WHOLE else f"{jax}.P({axis})" for one in layouts]
    texts = ["None" if k in static else text for k, text in enumerate(texts)]
    same = len(set(texts)) == 1 and len(set(layouts)) == 1
    if not always and (len(texts) == 1 or same):
        return f"{name}={texts[0]}"
    if len(texts) == 1:
        return f"{name}=({texts[0]},)"
    return CallText(f"{name}=", tuple(texts))


def _numbers(numbers: list[int]) -> str:
    listed = ", ".join(map(str, numbers))
    return f"({listed},)" if len(numbers) == 1 else f"({listed})"
