"""The two calls that a pmap becomes: jit of a shard_map, or of a helper that makes one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from shardlift.rewrite.call_format import Argument, CallText, Style
from shardlift.rewrite.names import jax_name
from shardlift.rewrite.options import (
    DEFAULT_AXIS,
    Options,
    PlainOptions,
    UnsupportedError,
    plain_options,
)
from shardlift.source.file import File

PER_DEVICE = "shard_map_per_device"


@dataclass(frozen=True)
class CallForm:
    """The arguments of the two calls that a pmap becomes."""

    inner: tuple[Argument, ...]  # of the inner call, after the function; positional ones first
    outer: tuple[Argument, ...]  # of jax.jit, after the function
    axis: str | None  # the axis name alone, if it is given
    name: str = PER_DEVICE
    is_jitted: bool = True  # jax.jit is around it
    rows: str = ""  # what is around the function, so that it sees its row alone
    in_axes: tuple[str, ...] = ()  # what that is given, if some arguments are whole
    is_lazy: bool = False  # the inner call is made when the function is called


def form_of(levels: Sequence[Options], style: Style) -> CallForm:
    """The form of pmaps that are one directly inside the other, outermost first."""
    for level in map(plain_options, levels):
        if level != PlainOptions(level.axis, 0, 0, ()):
            raise UnsupportedError(
                "nested pmaps with static arguments, or over other axes than the first: write one "
                "shard_map over a mesh of two axes"
            )
    names = [
        level.text("axis_name") or style.string(f"{DEFAULT_AXIS}_{number}")
        for number, level in enumerate(levels)
    ]
    if len(set(names)) != len(names):
        raise UnsupportedError("two of the nested pmaps have the same axis name")
    donated = levels[0].text("donate_argnums")
    is_donated = donated and donated not in ("()", "[]")
    return CallForm(
        (), (f"donate_argnums={donated}",) if is_donated else (), f"({', '.join(names)})"
    )


def call_text(form: CallForm, file: File, function: Argument, under_jit: bool = False) -> CallText:
    """`jax.jit(jax.shard_map(function, …), …)`; under a jit already, without another."""
    jax, _ = jax_name(file)
    axis = (form.axis,) if form.axis else ()
    function = CallText(form.rows, (function, *form.in_axes)) if form.rows else function
    inner = CallText(form.name, (function, *axis, *form.inner))
    if form.is_lazy:
        inner = replace(inner, function=f"lambda *args: {form.name}", after="(*args)")
    is_jitted = form.is_jitted and (form.outer or not under_jit)
    return CallText(f"{jax}.jit", (inner, *form.outer)) if is_jitted else inner
