"""`spmd_map`, the helper that takes the place of pmap: what a site needs of it, and its text.

It has pmap's own signature, so that a site changes by one name. There are two texts, in
`helper_texts/spmd_map`: for the first axis of all arguments, and for any axes. A parameter that no
site of a project uses is left out, with the lines that are there for it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import cache
from importlib import resources

from shardlift.rewrite.options import (
    NotLiteralError,
    Options,
    UnsupportedError,
    literal,
)
from shardlift.source.model import HelperRequest
from shardlift.source.values import Constant

NAME = "spmd_map"
# The axis of a site without a name: no collective of the program may find it, as none found it
# before (`try: lax.pmean(x, "batch")` with `except NameError`).
DEFAULT_AXIS = "_devices"


class Feature(StrEnum):
    """Something that not every project uses."""

    AXES = "axes"
    OUT_AXES = "out_axes"
    UNNAMED = "unnamed"  # the name of the axis may be None
    STATIC = "static"
    DEVICES = "devices"
    BACKEND = "backend"
    AXIS_SIZE = "axis_size"
    DONATE = "donate"
    LOWERED = "lowered"  # `.lower(…)` of what is returned is called
    REMAPPED = "remapped"  # the same function may be mapped again and again


_OF_KEYWORD = {
    "in_axes": Feature.AXES,
    "out_axes": Feature.OUT_AXES,
    "static_broadcasted_argnums": Feature.STATIC,
    "devices": Feature.DEVICES,
    "backend": Feature.BACKEND,
    "axis_size": Feature.AXIS_SIZE,
    "donate_argnums": Feature.DONATE,
}
# The lines that are there for a feature; or, of a line that is there anyway, its part.
_LINES = {
    Feature.STATIC: r"^.*\bstatic.*\n",
    Feature.DEVICES: r"^ +devices: .*\n|\bdevices or ",
    Feature.BACKEND: r"^ +backend: .*\n|\bbackend\b",
    Feature.AXIS_SIZE: r"^ +axis_size: .*\n|\baxis_size or ",
    Feature.DONATE: r"^ +donate_.*\n",
    Feature.LOWERED: r"^ +call\.lower = .*\n",
}
# Without out_axes, and without a name that may be None.
_OUT_SPECS = re.compile(r"^ +out_axes: .*\n|^ +out_specs = jax.tree.*\n", re.M)
_NAME = re.compile(r"^ +name = .*\n", re.M)
_REMEMBERED = "@_remember\n"
# A pmap that is handed on as a value may be called in any way.
ANY_CALL = frozenset(Feature) - {Feature.LOWERED}


def request(features: Iterable[Feature], axis: str | None) -> HelperRequest:
    """Ask for `spmd_map` with these features."""
    return HelperRequest(NAME, frozenset(features), axis)


def features_of_any_call(is_said: Callable[[str], bool]) -> frozenset[Feature]:
    """What a call of pmap may need whose options are not known.

    `is_said` tells whether a keyword stands anywhere in the project.
    """
    said = {feature for keyword, feature in _OF_KEYWORD.items() if is_said(keyword)}
    return frozenset({Feature.REMAPPED, Feature.UNNAMED, *said})


def features_of(options: Options) -> frozenset[Feature]:
    """What a call of pmap with these options needs of `spmd_map`."""
    check_axis_name(options)
    for name in ("in_axes", "out_axes"):
        if name in options.keywords:
            _check_axes(options.keywords[name])
    features = {_OF_KEYWORD[name] for name in options.keywords if name in _OF_KEYWORD}
    node = options.keywords.get("axis_name")
    value = options.file.only(node) if node is not None else Constant("")
    if not isinstance(value, Constant) or value.value is None:
        features.add(Feature.UNNAMED)
    return frozenset(features)


def check_axis_name(options: Options) -> None:
    """Refuse a name that a mesh axis cannot have: pmap took any object."""
    node = options.keywords.get("axis_name")
    value = options.file.only(node) if node is not None else None
    name = value.value if isinstance(value, Constant) else None
    if isinstance(node, ast.Tuple) or not (name is None or isinstance(name, str)):
        raise UnsupportedError("its axis name is not a string, and the name of a mesh axis is one")


def axis_of(options: Options) -> str | None:
    """The name of the axis, where the source says it, and it is an ordinary name."""
    node = options.keywords.get("axis_name")
    value = options.file.only(node) if node is not None else None
    name = value.value if isinstance(value, Constant) else None
    return name if isinstance(name, str) and name.isidentifier() else None


def _check_axes(node: ast.expr) -> None:
    """Refuse axes that a PartitionSpec cannot name."""
    try:
        axes = literal(node)
    except NotLiteralError:
        return
    for axis in _leaves(axes):
        if isinstance(axis, int) and axis < 0:
            raise UnsupportedError(
                f"axis {axis} counts from the end, and a PartitionSpec from the front: "
                "write the axis as its number from the front"
            )


def _leaves(axes: object) -> Iterable[object]:
    if isinstance(axes, (tuple, list)):
        for part in axes:
            yield from _leaves(part)
    elif isinstance(axes, dict):
        yield from _leaves(tuple(axes.values()))
    else:
        yield axes


def text(features: frozenset[Feature]) -> str:
    """The definition of `spmd_map` with these features, annotated."""
    has_axes = features & {Feature.AXES, Feature.OUT_AXES}
    source = _definition("axes" if has_axes else "rows")
    for feature in _LINES.keys() - features:
        source = re.sub(_LINES[feature], "", source, flags=re.M)
    if Feature.OUT_AXES not in features:
        source = re.sub(r"\bout_specs\b(?!=)", "spec(0)", _OUT_SPECS.sub("", source))
    if Feature.UNNAMED not in features:
        source = _NAME.sub("", source).replace(
            "Hashable | None = None", f'Hashable = "{DEFAULT_AXIS}"'
        )
        source = re.sub(r"\bname\b", "axis_name", source)
    if not re.search(r"^    \*,\n    \w", source, re.M):
        source = source.replace("    *,\n", "")
    return f"{_REMEMBERED if Feature.REMAPPED in features else ''}{source}"


def features_in(function: ast.FunctionDef, source: str) -> frozenset[Feature]:
    """The features of a definition that was written before."""
    parameters = [argument.arg for argument in function.args.kwonlyargs]
    found = {_OF_KEYWORD[name] for name in parameters if name in _OF_KEYWORD}
    if "call.lower =" in source:
        found.add(Feature.LOWERED)
    if re.search(r"^ +name = ", source, re.M):
        found.add(Feature.UNNAMED)
    if function.decorator_list:
        found.add(Feature.REMAPPED)
    return frozenset(found)


@cache
def _definition(name: str) -> str:
    folder = resources.files(__package__) / "helper_texts" / NAME
    file = (folder / f"{name}.py").read_text("utf-8")
    return file[file.index(f"def {NAME}(") :].rstrip("\n")
