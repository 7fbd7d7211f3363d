"""What a pmap call says, and the same said to jit and shard_map."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from shardlift.source.file import File

_KNOWN = frozenset(
    {
        "axis_name",
        "in_axes",
        "out_axes",
        "static_broadcasted_argnums",
        "devices",
        "backend",
        "axis_size",
        "donate_argnums",
    }
)


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
        value = literal(node)
        numbers = value if isinstance(value, (tuple, list)) else (value,)
        if not all(type(number) is int for number in numbers):
            raise NotLiteralError(f"{name} is not written out")
        return tuple(numbers)


def read_options(file: File, call: ast.Call, skip: int = 0) -> Options:
    """Read a call of pmap, or of a partial of it (`skip` is then 1)."""
    arguments = call.args[skip:]
    if any(isinstance(argument, ast.Starred) for argument in arguments):
        raise NotLiteralError("its arguments are unpacked")
    if any(keyword.arg is None for keyword in call.keywords):
        raise NotLiteralError("its keywords are unpacked")
    keywords = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    operand = keywords.pop("fun", None)
    if arguments:
        operand = arguments[0]
    if len(arguments) > 1:
        keywords["axis_name"] = arguments[1]
    unknown = sorted(set(keywords) - _KNOWN)
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


def is_leading(axes: object) -> bool:
    """Whether every leaf of a tree of axes is 0."""
    if isinstance(axes, (tuple, list)):
        return bool(axes) and all(is_leading(part) for part in axes)
    return axes == 0 and type(axes) is int
