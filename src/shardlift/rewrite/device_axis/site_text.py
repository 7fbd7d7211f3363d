"""The text of sites: plain calls with specs, and the meshes that they are for.

A script makes its mesh above the first function that needs it. A module that others import must
not touch devices while it is imported, and what sets JAX up must run before the first device is
touched: there, the mesh comes from the helper `device_mesh`. Where something keeps its device axis,
the helper `per_row_of` around the function takes and adds the row of each device.
"""

import ast
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from shardlift.rewrite.call_format import Argument, CallText, Style, render
from shardlift.rewrite.device_axis.cells import CellRole, NodePlace
from shardlift.rewrite.device_axis.followed_program import FollowedProgram
from shardlift.rewrite.device_axis.global_sites import GlobalSite
from shardlift.rewrite.device_axis.solve import AxisLayout, Decision
from shardlift.rewrite.explicit_sites import PER_ROW_OF
from shardlift.rewrite.forms import CallForm
from shardlift.rewrite.goal import DEFAULT_AXIS
from shardlift.rewrite.names import first_free, jax_name
from shardlift.rewrite.scripts import may_touch_devices, runs_at_import
from shardlift.source.file import File
from shardlift.source.model import Edit, HelperRequest, Kind, Match
from shardlift.source.scopes import first_line
from shardlift.source.statements import newline

MESH = "device_mesh"
AT_CALL = "shard_map_at_call"
JIT = "jit_over_devices"
HELPERS = (MESH, AT_CALL, PER_ROW_OF, JIT)
Helpers = frozenset[HelperRequest]


class Meshes:
    """The meshes of a program's files, and what was written for each axis."""

    def __init__(self, program: FollowedProgram, decision: Decision) -> None:
        """Find the place of each file's mesh."""
        self._names: dict[File, dict[str, str]] = {}
        self._shardings: dict[File, dict[str, str]] = {}
        self._first: dict[File, ast.stmt] = {}
        # Places whose new text may need a mesh: sites that stay stacked use the same one.
        users = [NodePlace(site.file, site.node) for site in program.sites.values()]
        for key, root in decision.classes.items():
            if decision.layouts[key] is AxisLayout.WHOLE:
                users += [made.at for made in root.made if made.role is CellRole.REPLICATE]
        for place in users:
            statement = [place.node, *place.file.index.ancestors(place.node)][-2]
            assert isinstance(statement, ast.stmt)
            first = self._first.setdefault(place.file, statement)
            if statement.lineno < first.lineno:
                self._first[place.file] = statement
        self._scripts = {
            file: may_touch_devices(file, first.lineno) for file, first in self._first.items()
        }
        sites = program.sites.values()
        named = Counter(site.axis_name for site in sites if site.axis_name)
        # Of arrays that are placed for sites without an axis name.
        self.default_axis = named.most_common(1)[0][0] if named else DEFAULT_AXIS

    def text(self, file: File, axis: str, written: str) -> tuple[str, Helpers]:
        """The mesh with an axis, which the text has as `written`, and the helper that it needs."""
        if not self.is_variable(file):
            return f"{MESH}({written})", frozenset({HelperRequest(MESH)})
        names = self._names.setdefault(file, {})
        if axis not in names:
            candidates = ("mesh", f"{axis}_mesh", *(f"mesh_{k}" for k in range(2, 99)))
            names[axis] = first_free(file, candidates, {*names.values()})
        return names[axis], frozenset()

    def sharding(self, file: File, axis: str, written: str) -> tuple[str, Helpers]:
        """The sharding of arrays that are whole on each device: a variable below the mesh."""
        jax, (mesh, helpers) = jax_name(file)[0], self.text(file, axis, written)
        sharding = f"{jax}.NamedSharding({mesh}, {jax}.P())"
        if not self.is_variable(file):
            return sharding, helpers
        names = self._shardings.setdefault(file, {})
        if sharding not in names:
            candidates = ("replicated", *(f"sharding_{k}" for k in range(99)))
            names[sharding] = first_free(file, candidates, {*names.values()})
        return names[sharding], helpers

    def is_variable(self, file: File) -> bool:
        """Whether the mesh of a file is a variable, which exists once the module has run."""
        return self._scripts.get(file, False)

    def is_early(self, site: GlobalSite) -> bool:
        """Whether a site is evaluated at an import that must not touch devices."""
        return runs_at_import(site.file, site.node) and not self.is_variable(site.file)

    def definitions(self) -> Iterator[tuple[File, Match]]:
        """The statements that make the meshes that were used."""
        return ((file, self._definition(file, names)) for file, names in self._names.items())

    def _definition(self, file: File, names: Mapping[str, str]) -> Match:
        first, style, jax = self._first[file], Style.of(file.source.text), jax_name(file)[0]
        lines: list[str] = []
        for axis, name in names.items():
            call = CallText(
                f"{jax}.sharding.Mesh", (f"{jax}.devices()", f"({style.string(axis)},)")
            )
            lines.append(f"{name} = {render(call, style, '', len(name) + 3)}")
        message = style.string("written for one process, not for several")
        lines.append(f"if {next(iter(names.values()))}.is_multi_process:")
        lines.append(f"{style.indent}raise RuntimeError({message})")
        lines += [f"{name} = {text}" for text, name in self._shardings.get(file, {}).items()]
        line, end = first_line(first), newline(file)
        is_block = isinstance(first, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        text = "\n".join(lines).replace("\n", end) + end * (3 if is_block else 1)
        edit = Edit(file.stretch(line, 0, line, 0), text)
        return Match(first, "", (edit,), jax_name(file)[1], kind=Kind.DEVICE_AXIS)


def axis_of(site: GlobalSite) -> tuple[str, str]:
    """The axis name of a site, and its text."""
    written = site.options.text("axis_name")
    if site.axis_name is None or written is None:
        return DEFAULT_AXIS, f'"{DEFAULT_AXIS}"'
    return site.axis_name, written


def shard_map_form(
    site: GlobalSite, decision: Decision, meshes: Meshes
) -> tuple[CallForm, Helpers]:
    """`jax.jit(jax.shard_map(...))` with a spec per argument and output, and its helpers."""
    jax, (axis, written) = jax_name(site.file)[0], axis_of(site)
    inputs = [decision.argument(site, k) for k in range(site.arguments or 0)]
    outputs = decision.outputs(site)
    out_specs = [_spec(layout, jax, written) for layout in outputs]
    specs: list[Argument] = [
        _listed("in_specs", [_spec(layout, jax, written) for layout in inputs])
    ]
    if len({*out_specs}) == 1:
        specs.append(f"out_specs={out_specs[0]}")
    else:
        specs.append(CallText("out_specs=", (*out_specs,)))
    if meshes.is_early(site):
        form = CallForm((*specs,), site.options.donation, written, name=AT_CALL)
        helpers = frozenset({HelperRequest(AT_CALL)})
    else:
        mesh, helpers = meshes.text(site.file, axis, written)
        inner = (f"mesh={mesh}", *specs, "check_vma=False")
        form = CallForm(inner, site.options.donation, None, name=f"{jax}.shard_map")
    if AxisLayout.STACKED not in (*inputs, *outputs):
        return form, helpers
    # The axis of one row that a value has in the block of a device.
    in_axes = tuple(0 if layout is AxisLayout.STACKED else None for layout in inputs)
    axes = tuple(0 if layout is AxisLayout.STACKED else None for layout in outputs)
    out_axes = axes[0] if len({*axes}) == 1 else axes
    rows = f"in_axes={in_axes}", f"out_axes={out_axes}"
    return replace(form, rows=PER_ROW_OF, in_axes=rows), helpers | {HelperRequest(PER_ROW_OF)}


def whole_batch_form(
    site: GlobalSite, layouts: Sequence[AxisLayout], meshes: Meshes
) -> tuple[CallForm, Helpers]:
    """`jax.jit` with shardings; where an import would touch devices, the helper that waits."""
    jax, (axis, written) = jax_name(site.file)[0], axis_of(site)
    specs = [_spec(layout, jax, written) for layout in layouts]
    if meshes.is_early(site):
        inner = (_listed("in_specs", specs), *site.options.donation)
        form = CallForm(inner, (), written, name=JIT, is_jitted=False)
        return form, frozenset({HelperRequest(JIT)})
    mesh, helpers = meshes.text(site.file, axis, written)
    inputs = [f"{jax}.NamedSharding({mesh}, {spec})" for spec in specs]
    output = f"out_shardings={jax}.NamedSharding({mesh}, {jax}.P())"
    form = CallForm(
        ("in_axes=None", "out_axes=None", f"axis_name={written}", "axis_size=1"),
        (_listed("in_shardings", inputs), output, *site.options.donation),
        None,
        name=f"{jax}.vmap",
    )
    return form, helpers


def _spec(layout: AxisLayout, jax: str, axis: str) -> str:
    return f"{jax}.P()" if layout is AxisLayout.WHOLE else f"{jax}.P({axis})"


def _listed(name: str, texts: Sequence[str]) -> Argument:
    """An argument that is a tuple."""
    return f"{name}=({texts[0]},)" if len(texts) == 1 else CallText(f"{name}=", (*texts,))
