"""The options of a pmap call, and their form for jit and shard_map."""

import ast
from dataclasses import dataclass, field
from typing import Any

from shardlift.rewrite.scripts import means_the_same
from shardlift.source.file import File
from shardlift.source.libraries import PMAP_ARGUMENTS
from shardlift.source.mentions import Mention, Use
from shardlift.source.scopes import has_star
from shardlift.source.values import Constant

Axes = int | None | tuple[int | None, ...]


def each(axes: Axes, count: int = 1) -> tuple[int | None, ...]:
    """The axis of each of some arguments; as many times the same if they have one for all."""
    return axes if isinstance(axes, tuple) else (axes,) * count


class NotLiteralError(ValueError):
    """The call says something that is known only when the program runs."""


class UnsupportedError(ValueError):
    """The call says something that has no place in jit(shard_map); the message says what."""


@dataclass(frozen=True)
class Options:
    """The keywords of one pmap call, and the function that it maps."""

    file: File = field(repr=False)
    operand: ast.expr | None
    keywords: dict[str, ast.expr]

    def text(self, name: str) -> str | None:
        """What is given for a keyword, as it was written; None if nothing, or None, is."""
        node = self.keywords.get(name)
        if node is None or (isinstance(node, ast.Constant) and node.value is None):
            return None
        text = self.file.text(node)
        return ast.unparse(node) if "\n" in text else text

    def numbers(self, name: str) -> tuple[int, ...]:
        """A keyword that is an argument number or several, written out."""
        node = self.keywords.get(name)
        if node is None:
            return ()
        value = literal(self.file.definition(node))
        numbers = value if isinstance(value, (tuple, list)) else (value,)
        if not all(type(number) is int for number in numbers):
            raise NotLiteralError(f"{name} is not written out")
        return tuple(numbers)

    @property
    def donation(self) -> tuple[str, ...]:
        """The option of jit that donates arguments, if the site donates some."""
        donated = self.text("donate_argnums")
        return (f"donate_argnums={donated}",) if donated and donated not in ("()", "[]") else ()

    def axes(self, name: str) -> Axes:
        """`in_axes` or `out_axes`: one axis for all, or one for each argument or result."""
        node = self.keywords.get(name)
        value = 0 if node is None else literal(self.file.definition(node))
        axes = tuple(map(_axis_of, value)) if isinstance(value, (tuple, list)) else (value,)
        if any(isinstance(axis, int) and axis < 0 for axis in axes):
            raise UnsupportedError(f"its {name} count from the end: write them from the front")
        if not all(axis is None or type(axis) is int for axis in axes):
            raise UnsupportedError(f"its {name} is a tree: write shard_map with a tree of specs")
        return axes if isinstance(value, (tuple, list)) and {*axes} != {0} else axes[0]

    def axis_name(self) -> str | None:
        """The name of the axis; None if it has none."""
        node = self.keywords.get("axis_name")
        value = self.file.only(node) if node is not None else Constant(None)
        if isinstance(node, ast.Tuple):
            value = Constant(())
        if not isinstance(value, Constant):
            raise UnsupportedError("its axis name is known only at run time: write it out")
        if not (value.value is None or isinstance(value.value, str)):
            raise UnsupportedError(
                "its axis name is not a string, and the name of a mesh axis is one"
            )
        return value.value


@dataclass(frozen=True)
class PlainOptions:
    """The options of a site that are all known."""

    axis: str | None
    in_axes: Axes
    out_axes: Axes
    static: tuple[int, ...]
    devices: str = ""  # the list of them, if the site has one


def plain_options(options: Options) -> PlainOptions:
    """What the call says, if it is written out; else `UnsupportedError` says what is not."""
    for name in ("backend", "axis_size"):
        if options.text(name) is not None:
            raise UnsupportedError(f"it has `{name}=`: make a mesh of the devices that it means")
    devices = _devices(options) if options.text("devices") is not None else ""
    axis = options.axis_name()
    try:
        static = options.numbers("static_broadcasted_argnums")
        in_axes, out_axes = options.axes("in_axes"), options.axes("out_axes")
        return PlainOptions(axis, in_axes, out_axes, static, devices)
    except NotLiteralError as error:
        raise UnsupportedError(f"{error}, but known only at run time: write it out") from error


def _devices(options: Options) -> str:
    """The text of the devices of a site, which is a list of them wherever it says so."""
    file, node = options.file, options.keywords["devices"]
    made = file.definition(node)
    is_list = isinstance(made, (ast.Call, ast.List, ast.Subscript))
    if not is_list or not means_the_same(file, node, node):
        raise UnsupportedError("it has devices of its own: make a mesh of them")
    return file.text(node)


def options_of(file: File, mention: Mention) -> Options:
    """The options of a call of pmap, or of a decorator."""
    if mention.use is not Use.DECORATOR:
        assert isinstance(mention.node, ast.Call)
        return read_options(file, mention.node)
    return decorating(file, mention.node)


def decorating(file: File, decorator: ast.expr) -> Options:
    """The options of a decorator."""
    if isinstance(decorator, ast.Call):
        return read_options(file, decorator, skip=1)
    return Options(file, None, {})


def read_options(file: File, call: ast.Call, skip: int = 0) -> Options:
    """Read a call of pmap, or of a partial of it (`skip` is then 1)."""
    arguments = call.args[skip:]
    if has_star(arguments):
        raise NotLiteralError("its arguments are unpacked, and known only at run time")
    if any(keyword.arg is None for keyword in call.keywords):
        raise NotLiteralError(
            "its options are unpacked, and known only at run time: write them out"
        )
    keywords = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    operand = keywords.pop("fun", None)
    if arguments:
        operand = arguments[0]
    if len(arguments) > 1:
        keywords["axis_name"] = arguments[1]
    unknown = sorted(set(keywords) - {*PMAP_ARGUMENTS})
    if unknown or len(arguments) > 2:
        what = f"`{unknown[0]}=`" if unknown else "a third positional argument"
        raise UnsupportedError(f"{what} is nothing that jax.pmap takes today")
    return Options(file, operand, keywords)


def literal(node: ast.expr) -> object:
    """The value of an expression that is written out."""
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError) as error:
        raise NotLiteralError(f"`{ast.unparse(node)}` is not written out") from error


def _axis_of(tree: Any) -> Any:
    """The axis that all leaves of a tree of axes have; the tree, if they differ."""
    parts = [*tree.values()] if isinstance(tree, dict) else tree
    axes = [*map(_axis_of, parts)] if isinstance(parts, (tuple, list)) else []
    same = all(type(axis) is type(axes[0]) and axis == axes[0] for axis in axes)
    return axes[0] if axes and same else tree
