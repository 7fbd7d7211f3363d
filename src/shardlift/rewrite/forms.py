"""The text that takes the place of pmaps inside one another: jit of one shard_map_per_device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shardlift.rewrite.call_format import Argument, CallText, Style
from shardlift.rewrite.names import jax_name
from shardlift.rewrite.options import (
    Options,
    UnsupportedError,
    is_leading,
    literal,
)
from shardlift.rewrite.spmd_map import check_axis_name
from shardlift.source.file import File

PER_DEVICE = "shard_map_per_device"
DEFAULT_NAME = "_devices"


@dataclass(frozen=True)
class CallForm:
    """The arguments of the two calls that a pmap becomes."""

    inner: tuple[
        Argument, ...
    ]  # of shard_map_per_device, after the function; positional ones first
    outer: tuple[Argument, ...]  # of jax.jit, after the function
    axis: str | None  # the axis name alone, if it is given
    name: str = PER_DEVICE
    is_jitted: bool = True  # jax.jit is around it
    rows: str = ""  # what is around the function, so that it sees its row alone
    in_axes: tuple[str, ...] = ()  # what that is given, if some arguments are whole


def form_of(levels: Sequence[Options], style: Style) -> CallForm:
    """The form of pmaps that are one directly inside the other, outermost first."""
    jax, _ = jax_name(levels[0].file)
    for level in levels[1:]:
        if level.text("devices") or level.text("static_broadcasted_argnums"):
            raise UnsupportedError("the inner pmap has devices or static arguments of its own")
    if levels[0].text("static_broadcasted_argnums"):
        raise UnsupportedError("a nested pmap with static arguments")
    for level in levels:
        check_axis_name(level)
    names = [
        level.text("axis_name") or style.string(f"{DEFAULT_NAME}_{number}")
        for number, level in enumerate(levels)
    ]
    if len(set(names)) != len(names):
        raise UnsupportedError("two of the nested pmaps have the same axis name")
    inner: list[str] = []
    for key, name in (("in_axes", "in_specs"), ("out_axes", "out_specs")):
        axes = [literal(level.keywords[key]) if key in level.keywords else 0 for level in levels]
        if not all(is_leading(level) for level in axes):
            inner.append(f"{name}={_nested_specs(axes, names, jax)}")
    axis = f"({', '.join(names)})"
    return CallForm((*inner, *_devices(levels[0], jax)), tuple(_donated(levels[0])), axis)


def call_text(form: CallForm, file: File, function: Argument, under_jit: bool = False) -> CallText:
    """`jax.jit(shard_map_per_device(function, …), …)`; under a jit already, without another."""
    jax, _ = jax_name(file)
    axis = (form.axis,) if form.axis else ()
    function = CallText(form.rows, (function, *form.in_axes)) if form.rows else function
    inner = CallText(form.name, (function, *axis, *form.inner))
    is_jitted = form.is_jitted and (form.outer or not under_jit)
    return CallText(f"{jax}.jit", (inner, *form.outer)) if is_jitted else inner


def _devices(options: Options, jax: str) -> list[str]:
    devices, backend = options.text("devices"), options.text("backend")
    if devices is None and backend:
        devices = f"{jax}.devices({backend})"
    return [f"devices={devices}"] if devices else []


def _donated(options: Options) -> list[str]:
    donated = options.text("donate_argnums")
    return [f"donate_argnums={donated}"] if donated and donated not in ("()", "[]") else []


def _nested_specs(levels: Sequence[object], names: Sequence[str], jax: str) -> str:
    """One tree of specs from a tree of axes for each level; a leaf spreads over what is below."""
    containers = [level for level in levels if isinstance(level, (tuple, list, dict))]
    if not containers:
        return _nested_spec(levels, names, jax)
    model = containers[0]
    if any(type(c) is not type(model) or len(c) != len(model) for c in containers):
        raise UnsupportedError("the axes of the nested pmaps are trees of different shapes")
    if isinstance(model, dict):
        raise UnsupportedError("the axes of the nested pmaps are dicts")
    parts = [
        _nested_specs(
            [level[k] if isinstance(level, (tuple, list)) else level for level in levels],
            names,
            jax,
        )
        for k in range(len(model))
    ]
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


def _nested_spec(axes: Sequence[object], names: Sequence[str], jax: str) -> str:
    """The position of each level's axis in the whole array: inner ones count without the outer."""
    entries: list[str] = []
    taken: list[int] = []
    for axis, name in zip(reversed(axes), reversed(names), strict=True):
        if axis is None:
            continue
        if type(axis) is not int or axis < 0:
            raise UnsupportedError(f"axis {axis!r} of a nested pmap")
        # From the inside out: a further axis in front shifts those that are there.
        taken = [place + (place >= axis) for place in taken]
        taken.append(axis)
        entries.append(name)
    places = dict(zip(taken, entries, strict=True))
    length = max(places) + 1 if places else 0
    listed = ", ".join(places.get(k, "None") for k in range(length))
    return f"{jax}.P({listed})"
