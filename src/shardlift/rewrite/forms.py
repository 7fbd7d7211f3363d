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
    plain = [plain_options(level) for level in levels]
    if any(level != PlainOptions(level.axis, 0, 0, ()) for level in plain):
        raise UnsupportedError(_by_hand(plain))
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


def _by_hand(levels: Sequence[PlainOptions]) -> str:
    """What to write in place of nested pmaps with options that are not rewritten."""
    names = ", ".join(repr(level.axis or f"{DEFAULT_AXIS}_{k}") for k, level in enumerate(levels))
    advice = f"write one jax.shard_map over a mesh of the axes ({names})"
    given = [level.in_axes for level in levels]
    number = max((len(axes) for axes in given if isinstance(axes, tuple)), default=1)
    rows = [axes if isinstance(axes, tuple) else (axes,) * number for axes in given]
    is_leading = all(len(row) == number and not any(row) for row in rows)  # 0 and None alone
    if is_leading and not any(level.static or level.out_axes != 0 for level in levels):
        mapped = [[level for level, axis in zip(levels, column, strict=True) if axis == 0]
                  for column in zip(*rows, strict=True)]  # fmt: skip
        specs = [f"jax.P({', '.join(repr(level.axis) for level in one)})" for one in mapped]
        advice += f", with in_specs=({', '.join(specs)}) and out_specs=jax.P({names}); "
        advice += "in its body each array has an axis of size 1 for each axis of its spec"
    return f"nested pmaps with static arguments, in_axes or out_axes: {advice}"


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
