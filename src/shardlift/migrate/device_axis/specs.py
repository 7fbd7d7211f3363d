"""The specs of a site: one per argument and output, for a state one per field."""

from __future__ import annotations

from dataclasses import replace

from shardlift.migrate.call_format import Argument, CallText, Style, render
from shardlift.migrate.device_axis.mesh import Meshes
from shardlift.migrate.device_axis.sites import Site
from shardlift.migrate.device_axis.solve import Decision, Layout
from shardlift.migrate.device_axis.state_forms import is_visible, named
from shardlift.migrate.device_axis.states import State
from shardlift.migrate.device_axis.wrapper import filled
from shardlift.migrate.names import jax_name
from shardlift.source.file import File
from shardlift.source.scopes import positional


def specs_of(
    site: Site, decision: Decision, axis: str, meshes: Meshes | None = None
) -> tuple[Argument, Argument]:
    """`in_specs` and `out_specs`; one spec for all outputs if it is the same.

    Without `meshes`, None stands for a static argument.
    """
    jax = jax_name(site.file)[0]
    states = _named_specs(site, decision, axis, meshes) if meshes is not None else {}
    static = () if meshes is not None else ("None",)
    texts: list[Argument] = []
    for k in range(site.arguments or 0):
        state = decision.state(site, k)
        spec = states[state] if state is not None else _spec(decision.argument(site, k), jax, axis)
        texts += static if k in site.static else (spec,)
    outputs: list[Argument] = [
        states[state] if state is not None else _spec(layout, jax, axis)
        for layout, state in zip(
            decision.outputs(site), decision.returned_states(site), strict=True
        )
    ]
    return _listed("in_specs=", texts), _listed("out_specs=", outputs, is_prefix=True)


def _listed(opening: str, specs: list[Argument], is_prefix: bool = False) -> Argument:
    """A tuple of specs; one for all of them if it is a prefix and they are the same."""
    if is_prefix and all(spec == specs[0] for spec in specs):
        return named(opening, specs[0])
    if len(specs) != 1:
        return CallText(opening, tuple(specs))
    (spec,) = specs
    if isinstance(spec, CallText):
        return CallText(opening, (replace(spec, after=","),))
    return f"{opening}({spec},)"


# ---- specs of states


def needs_a_state(site: Site, decision: Decision) -> bool:
    """Whether specs can only be made from a state that is given to the mapped function."""
    return any(_literal(site, state, "", "") is None for state in states_of(site, decision))


def states_of(site: Site, decision: Decision) -> list[State]:
    """The states that a site takes and returns, with fields of several layouts."""
    given = [decision.state(site, k) for k in range(site.arguments or 0)]
    every = [*given, *decision.returned_states(site)]
    return [state for state in dict.fromkeys(every) if state is not None]


def _literal(site: Site, state: State, jax: str, axis: str) -> CallText | None:
    """The specs of a state, written out; None if that needs a state."""
    owner = state.form.owner
    if owner is not None and not is_visible(site.file, owner, site.node):
        return None
    return state.form.literal(specs_by_field(state, jax, axis), Style.of(site.file.source.text))


def specs_by_field(state: State, jax: str, axis: str) -> dict[str, str]:
    """The spec of each field of a state."""
    return {
        name: _spec(Layout.STACKED if name in state.fields else Layout.WHOLE, jax, axis)
        for name in state.names
    }


def specs_of_states(
    site: Site, decision: Decision, axis: str, function: str
) -> dict[State, Argument | None]:
    """The specs of each state of a site; None if they need a state that is not given."""
    jax, found = jax_name(site.file)[0], dict[State, Argument | None]()
    names = positional(site.function.node)[filled(site) :] if site.function else []  # type: ignore[arg-type]
    for state in states_of(site, decision):
        found[state] = _literal(site, state, jax, axis)
        if found[state] is None:
            given = [k for k in range(len(names)) if decision.state(site, k) is state]
            found[state] = f"{function}({names[given[0]]})" if given else None
    return found


def _named_specs(
    site: Site, decision: Decision, axis: str, meshes: Meshes
) -> dict[State, Argument]:
    """The specs of each state of a site; of one that is given, a function makes them."""
    function = ""
    for state in states_of(site, decision):
        if _literal(site, state, "", axis) is None:
            function = meshes.function_of(site.file, *_specs_function(site.file, state, axis))
    found = specs_of_states(site, decision, axis, function)
    return {state: specs for state, specs in found.items() if specs is not None}


def _specs_function(file: File, state: State, axis: str) -> tuple[str, str]:
    """The name of a function that makes specs of a state, and its text after the name."""
    style, jax = Style.of(file.source.text), jax_name(file)[0]
    apart = " and ".join(f"`{name}`" for name in state.fields)
    has = "has" if len(state.fields) == 1 else "have"
    opening, margin = "return ", style.indent
    call = state.form.replaced("state", dict(specs_by_field(state, jax, axis)), style)
    lines = [
        f'{margin}"""{apart} {has} one row per device, the rest of a state is whole."""',
        f"{margin}{opening}{render(call, style, margin, len(margin + opening))}",
    ]
    return "state_specs", "(state):\n" + "\n".join(lines)


def _spec(layout: Layout, jax: str, axis: str) -> str:
    return f"{jax}.P()" if layout is Layout.WHOLE else f"{jax}.P({axis})"
