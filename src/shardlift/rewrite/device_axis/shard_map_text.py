"""The plain text of a site: `jax.jit(jax.shard_map(...))` with specs.

Where something keeps its device axis, the helper `per_row_of` around the function takes and adds
the row of each device.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from shardlift.rewrite.call_format import Argument, CallText
from shardlift.rewrite.device_axis.global_sites import GlobalSite
from shardlift.rewrite.device_axis.mesh import Meshes, axis_of, needs_helper
from shardlift.rewrite.device_axis.solve import AxisLayout, Decision
from shardlift.rewrite.explicit_sites import PER_ROW_OF
from shardlift.rewrite.forms import CallForm
from shardlift.rewrite.names import jax_name, partial_name
from shardlift.rewrite.scripts import runs_at_import
from shardlift.source.model import HelperRequest

AT_CALL = "shard_map_at_call"
HELPERS = (AT_CALL, PER_ROW_OF)


def plain_form(
    site: GlobalSite, decision: Decision, meshes: Meshes
) -> tuple[CallForm, frozenset[HelperRequest]]:
    """The calls that take the place of a pmap, and the helpers that they need."""
    file = site.file
    axis, written = axis_of(site)
    specs = _specs(site, decision, written)
    if is_early(site, meshes):
        form = CallForm(specs, donation(site), written, name=AT_CALL)
        helpers = frozenset({HelperRequest(AT_CALL)})
    else:
        mesh = meshes.text(file, axis, written)
        inner: tuple[Argument, ...] = (f"mesh={mesh}", *specs, "check_vma=False")
        form = CallForm(inner, donation(site), None, name=f"{jax_name(file)[0]}.shard_map")
        helpers = needs_helper(mesh)
    arguments = tuple(_axis(decision.argument(site, k)) for k in range(site.arguments or 0))
    outputs = tuple(map(_axis, decision.outputs(site)))
    if {*arguments, *outputs} <= {None}:
        return form, helpers
    out_axes = outputs[0] if len(set(outputs)) == 1 else outputs
    axes = f"in_axes={arguments}", f"out_axes={out_axes}"
    return replace(form, rows=PER_ROW_OF, in_axes=axes), helpers | {HelperRequest(PER_ROW_OF)}


def is_early(site: GlobalSite, meshes: Meshes) -> bool:
    """Whether a site is evaluated at an import that must not touch devices."""
    return runs_at_import(site.file, site.node) and not meshes.is_variable(site.file)


def _axis(layout: AxisLayout) -> int | None:
    """The axis of one row that a value has in the block of a device."""
    return 0 if layout is AxisLayout.STACKED else None


def _specs(site: GlobalSite, decision: Decision, axis: str) -> tuple[Argument, Argument]:
    """`in_specs` and `out_specs`; one spec for all outputs if it is the same."""
    jax, outputs = jax_name(site.file)[0], decision.outputs(site)
    inputs = [spec(decision.argument(site, k), jax, axis) for k in range(site.arguments or 0)]
    specs = [spec(layout, jax, axis) for layout in outputs]
    is_one = len(set(specs)) == 1
    given = f"out_specs={specs[0]}" if is_one else CallText("out_specs=", (*specs,))
    return listed("in_specs", inputs), given


def spec(layout: AxisLayout, jax: str, axis: str) -> str:
    """The spec of a layout."""
    return f"{jax}.P()" if layout is AxisLayout.WHOLE else f"{jax}.P({axis})"


def listed(name: str, texts: Sequence[str]) -> Argument:
    """An argument that is a tuple."""
    return f"{name}=({texts[0]},)" if len(texts) == 1 else CallText(f"{name}=", (*texts,))


def donation(site: GlobalSite) -> tuple[str, ...]:
    """The option of jit that donates arguments, as the site has it."""
    donated = site.options.text("donate_argnums")
    return (f"donate_argnums={donated}",) if donated and donated not in ("()", "[]") else ()


def imports_of(site: GlobalSite) -> frozenset[str]:
    """What the text of a site imports."""
    imports = jax_name(site.file)[1]
    if site.options.operand is None and not isinstance(site.node, ast.Call):  # @jax.pmap
        imports |= partial_name(site.file)[1]
    return imports
