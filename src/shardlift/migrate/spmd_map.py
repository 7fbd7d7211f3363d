"""`spmd_map`, the helper that takes the place of pmap: what a site needs of it, and its text.

It has pmap's own signature, so that a site changes by one name. Its text is a template, trimmed
to what the sites of a project use: a line that ends in `#? static !donate` is written where static
arguments are used and donation is not; `a|b` means one of the two.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterable
from enum import StrEnum
from functools import cache
from importlib import resources

from shardlift.migrate.options import (
    NotLiteralError,
    Options,
    UnsupportedError,
    literal,
)
from shardlift.source.model import HelperRequest
from shardlift.source.values import Constant

NAME = "spmd_map"
DEFAULT_AXIS = "devices"
_CONDITION = re.compile(r"\s*#\? (.*)$")


class Feature(StrEnum):
    """Something that not every project uses."""

    IN_AXES = "in_axes"
    OUT_AXES = "out_axes"
    STATIC = "static"
    DEVICES = "devices"
    BACKEND = "backend"
    AXIS_SIZE = "axis_size"
    DONATE = "donate"
    UNNAMED = "unnamed"  # the axis name may be None
    LISTS = "lists"  # in_axes may be a list
    LOWERED = "lowered"  # `.lower(…)` of what is returned is called
    STATIC_LAST = "static_last"  # in_axes may leave out static arguments at the end
    UNMAPPED = "unmapped"  # in_axes may be None for some arguments
    UNHASHABLE = "unhashable"  # an option may be a list or a dict
    REMAPPED = "remapped"  # the same function may be mapped again and again
    PROCESSES = "processes"  # the program may be a job of many processes


_OF_KEYWORD = {
    "in_axes": Feature.IN_AXES,
    "out_axes": Feature.OUT_AXES,
    "static_broadcasted_argnums": Feature.STATIC,
    "devices": Feature.DEVICES,
    "backend": Feature.BACKEND,
    "axis_size": Feature.AXIS_SIZE,
    "donate_argnums": Feature.DONATE,
}
_PARAMETERS = {feature: keyword for keyword, feature in _OF_KEYWORD.items()}
# A pmap that is handed on as a value may be called in any way.
ANY_CALL = frozenset(Feature) - {Feature.PROCESSES, Feature.LOWERED}
_OF_IN_AXES = frozenset({Feature.LISTS, Feature.UNMAPPED, Feature.STATIC_LAST})
# With no more than these, all arrays are sliced along their first axis, and none is static.
_FIRST_AXIS_ONLY = frozenset(
    {
        Feature.PROCESSES,
        Feature.DONATE,
        Feature.UNNAMED,
        Feature.LOWERED,
        Feature.REMAPPED,
        Feature.UNHASHABLE,
    }
)
_MAY_HAVE_NO_HASH = frozenset(
    {Feature.IN_AXES, Feature.OUT_AXES, Feature.STATIC, Feature.DEVICES, Feature.DONATE}
)


def request(features: Iterable[Feature], axis: str | None) -> HelperRequest:
    """Ask for `spmd_map` with these features."""
    return HelperRequest(NAME, frozenset(features), axis)


def features_of_any_call(is_said: Callable[[str], bool]) -> frozenset[Feature]:
    """What a call of pmap may need whose options are not known.

    `is_said` tells whether a keyword stands anywhere in the project.
    """
    never = {feature for feature, keyword in _PARAMETERS.items() if not is_said(keyword)}
    if Feature.IN_AXES in never:
        never |= _OF_IN_AXES
    if Feature.STATIC in never:
        never.add(Feature.STATIC_LAST)
    if never >= _MAY_HAVE_NO_HASH:
        never.add(Feature.UNHASHABLE)
    return ANY_CALL - never


def features_of(options: Options) -> frozenset[Feature]:
    """What a call of pmap with these options needs of `spmd_map`."""
    found = {_OF_KEYWORD[name] for name in options.keywords if name in _OF_KEYWORD}
    if axis_of(options) is None and "axis_name" in options.keywords:
        found.add(Feature.UNNAMED)
    for name in ("in_axes", "out_axes"):
        if name in options.keywords:
            found |= _of_axes(name, options.keywords[name])
    if _leaves_out_static(options):
        found.add(Feature.STATIC_LAST)
    for name in ("static_broadcasted_argnums", "devices", "donate_argnums"):
        if name in options.keywords and not _is_hashable(options.keywords[name]):
            found.add(Feature.UNHASHABLE)
    return frozenset(found)


def axis_of(options: Options) -> str | None:
    """The name of the axis, where the source says it, and it is an ordinary name."""
    node = options.keywords.get("axis_name")
    value = options.file.only(node) if node is not None else None
    name = value.value if isinstance(value, Constant) else None
    return name if isinstance(name, str) and name.isidentifier() else None


def _of_axes(name: str, node: ast.expr) -> set[Feature]:
    found = set() if _is_hashable(node) else {Feature.UNHASHABLE}
    try:
        axes = literal(node)
    except NotLiteralError:
        return found | ({Feature.LISTS, Feature.UNMAPPED} if name == "in_axes" else set())
    leaves = list(_leaves(axes))
    for axis in leaves:
        if isinstance(axis, int) and axis < 0:
            raise UnsupportedError(
                f"axis {axis} counts from the end, and a PartitionSpec from the front: "
                "write the axis as its number from the front"
            )
    if name == "in_axes" and None in leaves:
        found.add(Feature.UNMAPPED)
    if name == "in_axes" and isinstance(axes, list):
        found.add(Feature.LISTS)
    return found


def _leaves_out_static(options: Options) -> bool:
    """Whether `in_axes` may be shorter than the arguments, because the last ones are static."""
    static, axes = (
        options.keywords.get(name) for name in ("static_broadcasted_argnums", "in_axes")
    )
    if static is None or axes is None:
        return False
    try:
        given, numbers = literal(axes), list(_leaves(literal(static)))
    except NotLiteralError:
        return True
    last = max((n for n in numbers if isinstance(n, int)), default=-1)
    return isinstance(given, (tuple, list)) and len(given) <= last


def _leaves(axes: object) -> Iterable[object]:
    if isinstance(axes, (tuple, list)):
        for part in axes:
            yield from _leaves(part)
    elif isinstance(axes, dict):
        yield from _leaves(tuple(axes.values()))
    else:
        yield axes


def _is_hashable(node: ast.expr) -> bool:
    """Whether a value is written out, and of things that have a hash."""
    plain = (ast.Constant, ast.Tuple, ast.UnaryOp, ast.USub, ast.Load)
    return all(isinstance(inner, plain) for inner in ast.walk(node))


def text(features: frozenset[Feature], axis: str = DEFAULT_AXIS) -> str:
    """The definition of `spmd_map` with these features, annotated."""
    return _trim(_template(), {*features, *_ways_to_call(features)}).replace("AXIS", f'"{axis}"')


def _ways_to_call(features: frozenset[Feature]) -> set[str]:
    """What is done with the arguments before the compiled function is called.

    They are `placed` on its devices, or those of many processes become global arrays: all in one
    step if they are alike (`by_tree`), or each `by_leaf`.
    """
    if Feature.PROCESSES in features:
        return {"called", "by_tree" if features <= _FIRST_AXIS_ONLY else "by_leaf"}
    return {"called", "placed"} if Feature.UNMAPPED in features else set()


def features_in(function: ast.FunctionDef, source: str) -> frozenset[Feature]:
    """The features of a definition that was written before."""
    parameters = {argument.arg for argument in function.args.kwonlyargs}
    found = {feature for feature, keyword in _PARAMETERS.items() if keyword in parameters}
    signs = {
        Feature.UNNAMED: "axis_name is None",
        Feature.LISTS: "isinstance(in_axes, list)",
        Feature.STATIC_LAST: "in_axes += (None,)",
        Feature.UNMAPPED: "_placed,",
        Feature.PROCESSES: "multihost_utils.",
        Feature.LOWERED: "call.lower =",
        Feature.UNHASHABLE: "@_remember",
    }
    found |= {feature for feature, sign in signs.items() if sign in source}
    if function.decorator_list:
        found.add(Feature.REMAPPED)
    return frozenset(found)


def axis_in(function: ast.FunctionDef) -> str:
    """The name that the axis has by default in such a definition."""
    defaults = function.args.defaults
    value = defaults[-1].value if defaults and isinstance(defaults[-1], ast.Constant) else None
    return value if isinstance(value, str) else DEFAULT_AXIS


def _trim(template: str, features: Collection[str]) -> str:
    kept: list[str] = []
    for line in template.splitlines():
        condition = _CONDITION.search(line)
        if condition is None and (line or kept[-1:] != [""]):
            kept.append(line)
        elif condition is not None and _holds(condition[1], features):
            kept.append(line[: condition.start()])
    return "\n".join(kept).rstrip("\n")


def _holds(condition: str, features: Collection[str]) -> bool:
    def is_true(word: str) -> bool:
        if word.startswith("!"):
            return word[1:] not in features
        return any(choice in features for choice in word.split("|"))

    return all(map(is_true, condition.split()))


@cache
def _template() -> str:
    folder = resources.files(__package__) / "helper_texts" / "templates"
    return (folder / "spmd_map.txt").read_text("utf-8")
