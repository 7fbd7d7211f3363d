"""The specs of a site: one per argument and output."""

from __future__ import annotations

from shardlift.rewrite.call_format import Argument, CallText
from shardlift.rewrite.device_axis.sites import GlobalSite
from shardlift.rewrite.device_axis.solve import AxisLayout, Decision
from shardlift.rewrite.names import jax_name


def specs_of(site: GlobalSite, decision: Decision, axis: str) -> tuple[Argument, Argument]:
    """`in_specs`, without static arguments, and `out_specs`; one for all outputs if it is equal."""
    jax = jax_name(site.file)[0]
    arguments = [k for k in range(site.arguments or 0) if k not in site.static]
    texts = [_spec(decision.argument(site, k), jax, axis) for k in arguments]
    outputs = [_spec(layout, jax, axis) for layout in decision.outputs(site)]
    is_one = len(set(outputs)) == 1
    out_specs = f"out_specs={outputs[0]}" if is_one else CallText("out_specs=", tuple(outputs))
    return _listed("in_specs=", texts), out_specs


def _listed(opening: str, specs: list[str]) -> Argument:
    return f"{opening}({specs[0]},)" if len(specs) == 1 else CallText(opening, tuple(specs))


def _spec(layout: AxisLayout, jax: str, axis: str) -> str:
    return f"{jax}.P()" if layout is AxisLayout.WHOLE else f"{jax}.P({axis})"
