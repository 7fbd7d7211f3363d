"""The text that takes a pmap's place: jit of shard_map_per_device, from the pmap's options."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shardlift.migrate.call_format import Argument, CallText, Style
from shardlift.migrate.names import jax_name
from shardlift.migrate.options import (
    NotLiteralError,
    Options,
    UnsupportedError,
    is_leading,
    literal,
    spec_text,
)
from shardlift.source.file import File
from shardlift.source.values import Constant

PER_DEVICE = "shard_map_per_device"
HOST_LOCAL = "host_local"
DEFAULT_NAME = "devices"


@dataclass(frozen=True)
class Form:
    """The arguments of the two calls that a pmap becomes."""

    inner: tuple[
        Argument, ...
    ]  # of shard_map_per_device, after the function; positional ones first
    outer: tuple[str, ...]  # of jax.jit, after the function
    axis: str | None  # the axis name alone, if it is given
    variant: str | None = None  # the smaller text of shard_map_per_device that will do
    name: str = PER_DEVICE
    host_local: str = HOST_LOCAL  # what is around it in a program of many processes


def form_of(levels: Sequence[Options], style: Style) -> Form:
    """The form of one pmap, or of several, one directly inside the other, outermost first."""
    outer = levels[0]
    if len(levels) > 1:
        return _nested(levels, style)
    jax, _ = jax_name(outer.file)
    axis = outer.text("axis_name")
    static = outer.text("static_broadcasted_argnums")
    specs = _specs(outer, jax, axis or style.string(DEFAULT_NAME))
    inner = [*specs, *_devices(outer, jax)]
    numbers = [f"static_argnums={static}"] if static and static not in ("()", "[]") else []
    variant = _variant(outer, specs) if inner == specs and not numbers else None
    return Form((*inner, *numbers), (*numbers, *_donated(outer)), axis, variant)


def _variant(options: Options, specs: Sequence[Argument]) -> str | None:
    """The smaller text that serves a site with no more to say than specs."""
    node = options.keywords.get("axis_name")
    value = Constant("") if node is None else options.file.only(node)
    if not isinstance(value, Constant) or not isinstance(value.value, str):
        return None  # may be None, or a name that is no string
    if any(
        "[" in text or "{" in text for text in map(options.text, ("in_axes", "out_axes")) if text
    ):
        return None  # a list or a dict has no hash
    return "specs" if specs else "plain"


def call_text(form: Form, file: File, function: Argument, under_jit: bool = False) -> CallText:
    """`jax.jit(shard_map_per_device(function, …), …)`, for many processes inside host_local.

    What stands directly under a jit already needs no other.
    """
    jax, _ = jax_name(file)
    axis = (form.axis,) if form.axis else ()
    inner = CallText(form.name, (function, *axis, *form.inner))
    if under_jit and not form.outer and not file.many_processes:
        return inner
    call = CallText(f"{jax}.jit", (inner, *form.outer))
    return CallText(form.host_local, (call,)) if file.many_processes else call


def _specs(options: Options, jax: str, axis: str) -> list[Argument]:
    found: list[Argument] = []
    static = options.numbers("static_broadcasted_argnums")
    for key, name in (("in_axes", "in_specs"), ("out_axes", "out_specs")):
        node = options.keywords.get(key)
        axes = 0 if node is None else literal(node)
        if key == "in_axes" and isinstance(axes, (tuple, list)):
            axes = tuple(axes)
            rows = [a for k, a in enumerate(axes) if not {k, k - len(axes)} & set(static)]
            if is_leading(rows):
                continue
        if is_leading(axes):
            continue
        assert node is not None
        _simple(options.keywords.get("axis_name"))
        found.append(_keyword(name, axes, lambda leaf: _spec(leaf, jax, axis)))
    return found


def _keyword(name: str, axes: object, spec: Callable[[object], str]) -> Argument:
    if isinstance(axes, tuple) and len(axes) > 1:
        return CallText(f"{name}=", tuple(spec_text(part, spec) for part in axes))
    return f"{name}={spec_text(axes, spec)}"


def _spec(axis: object, jax: str, name: str) -> str:
    if axis is None:
        return f"{jax}.P()"
    if type(axis) is not int:
        raise NotLiteralError(f"{axis!r} is not an axis")
    if axis < 0:
        raise UnsupportedError(
            f"axis {axis} counts from the end, and a PartitionSpec from the front: "
            "write the axis as its number from the front"
        )
    return f"{jax}.P({'None, ' * axis}{name})"


def _simple(node: ast.expr | None) -> None:
    """Refuse an expression that should not be written twice."""
    while isinstance(node, ast.Attribute):
        node = node.value
    if node is not None and not isinstance(node, (ast.Constant, ast.Name)):
        raise NotLiteralError("the axis name is computed")


def _devices(options: Options, jax: str) -> list[str]:
    devices, backend = options.text("devices"), options.text("backend")
    size = options.text("axis_size")
    if devices is None and (backend or size):
        count = f"[:{size}]" if size else ""
        devices = f"{jax}.devices({backend or ''}){count}"
    return [f"devices={devices}"] if devices else []


def _donated(options: Options) -> list[str]:
    donated = options.text("donate_argnums")
    return [f"donate_argnums={donated}"] if donated and donated not in ("()", "[]") else []


def _nested(levels: Sequence[Options], style: Style) -> Form:
    """pmaps directly inside one another: one mesh, an axis of it for each."""
    jax, _ = jax_name(levels[0].file)
    for level in levels[1:]:
        if level.text("devices") or level.text("static_broadcasted_argnums"):
            raise UnsupportedError("the inner pmap has devices or static arguments of its own")
    if levels[0].text("static_broadcasted_argnums"):
        raise UnsupportedError("a nested pmap with static arguments")
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
    return Form((*inner, *_devices(levels[0], jax)), tuple(_donated(levels[0])), axis)


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
    """Where each level's axis lies in the whole array: inner ones count without the outer."""
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
