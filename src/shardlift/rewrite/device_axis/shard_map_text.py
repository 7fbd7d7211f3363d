"""The plain text of a site: `jax.jit(jax.shard_map(...))` with specs.

Where something keeps its device axis, the helper `per_row_at` around the function takes and adds
the row of each device.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from shardlift.rewrite.call_format import Argument, CallText
from shardlift.rewrite.device_axis.global_sites import GlobalSite
from shardlift.rewrite.device_axis.mesh import Meshes, axis_of, needs_helper
from shardlift.rewrite.device_axis.reasons import Obstacle, ObstacleKind, obstacle
from shardlift.rewrite.device_axis.solve import AxisLayout, Decision
from shardlift.rewrite.forms import CallForm
from shardlift.rewrite.names import jax_name, partial_name
from shardlift.rewrite.scripts import runs_at_import, runs_once
from shardlift.source.model import HelperRequest
from shardlift.source.values import Known

AT_CALL = "shard_map_at_call"
ROWS = "per_row_at"
STATIC = "shard_map_static"
HELPERS = (AT_CALL, ROWS, STATIC)


def not_plain(site: GlobalSite, meshes: Meshes) -> Obstacle | None:
    """Why plain `jax.shard_map` cannot take the place of a site; None if it can."""
    if site.static and _is_early(site, meshes):
        return obstacle(ObstacleKind.STATIC_EARLY)
    if _is_compiled_once(site) and not runs_once(site.file, site.node):
        return obstacle(ObstacleKind.MAPPED_AGAIN)
    return None


def plain_form(
    site: GlobalSite, decision: Decision, meshes: Meshes
) -> tuple[CallForm, frozenset[HelperRequest]]:
    """The calls that take the place of a pmap, and the helpers that they need."""
    file = site.file
    axis, written = axis_of(site)
    specs = _specs(site, decision, written)
    if _is_early(site, meshes):
        form = CallForm(specs, donation(site), written, name=AT_CALL)
        helpers = frozenset({HelperRequest(AT_CALL)})
    else:
        mesh = meshes.text(file, axis, written)
        inner: tuple[Argument, ...] = (f"mesh={mesh}", *specs, "check_vma=False")
        form = CallForm(inner, donation(site), None, name=f"{jax_name(file)[0]}.shard_map")
        helpers = needs_helper(mesh)
        if site.static:
            inner = (f"static={site.static}", *inner)
            outer = (f"static_argnums={site.static}", *form.outer)
            form = replace(form, name=STATIC, inner=inner, outer=outer)
            helpers |= {HelperRequest(STATIC)}
    arguments = tuple(_axis(decision.argument(site, k)) for k in range(site.arguments or 0))
    outputs = tuple(map(_axis, decision.outputs(site)))
    if {*arguments, *outputs} <= {None}:
        return form, helpers
    out_axes = outputs[0] if len(set(outputs)) == 1 else outputs
    axes = f"in_axes={arguments}", f"out_axes={out_axes}"
    return replace(form, rows=ROWS, in_axes=axes), helpers | {HelperRequest(ROWS)}


def _is_early(site: GlobalSite, meshes: Meshes) -> bool:
    """Whether a site is evaluated at an import that must not touch devices."""
    is_variable = meshes.is_variable(site.file, axis_of(site)[0])
    return runs_at_import(site.file, site.node) and not is_variable


def _axis(layout: AxisLayout) -> int | None:
    """The axis of one row that a value has in the block of a device."""
    return 0 if layout is AxisLayout.STACKED else None


def _specs(site: GlobalSite, decision: Decision, axis: str) -> tuple[Argument, Argument]:
    """`in_specs` and `out_specs`; one spec for all outputs if it is the same."""
    jax, outputs = jax_name(site.file)[0], decision.outputs(site)
    arrays = [k for k in range(site.arguments or 0) if k not in site.static]
    inputs = [spec(decision.argument(site, k), jax, axis) for k in arrays]
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


def _is_compiled_once(site: GlobalSite) -> bool:
    """Whether pmap of the function again, which is at the top of a module, compiles nothing."""
    operand = site.options.operand
    value = site.file.only(operand) if isinstance(operand, ast.Name) else None
    is_known = isinstance(value, Known) and value.node in value.file.index.root.body
    return is_known and site.file.index.function_around(site.node) is not None
