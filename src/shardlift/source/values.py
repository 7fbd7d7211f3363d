"""The values that an expression may have, as far as rules and rewrites need them."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shardlift.source.scopes import Function

if TYPE_CHECKING:
    from shardlift.source.file import File


class Value:
    """What an expression may be."""


@dataclass(frozen=True)
class Unknown(Value):
    """A value that is not understood."""


@dataclass(frozen=True)
class Constant(Value):
    """A literal string, number, bool or None."""

    value: object


@dataclass(frozen=True)
class External(Value):
    """A dotted name of a library: `jax.numpy.sum`."""

    path: str


@dataclass(frozen=True)
class Known(Value):
    """A function or class that is defined in the project."""

    node: Function | ast.ClassDef
    file: File = field(repr=False)

    def returns(self) -> list[ast.expr]:
        """The expressions that a function returns; none for a class or a coroutine."""
        return self.file.index.returns(self.node)


@dataclass(frozen=True)
class Instance(Value):
    """An object of a class that is defined in the project, often `self`."""

    node: ast.ClassDef
    file: File = field(repr=False)


@dataclass(frozen=True)
class Argument(Value):
    """A parameter, inside its function."""

    node: ast.arg
    function: Function


@dataclass(frozen=True)
class Located:
    """An expression and its file."""

    node: ast.expr
    file: File = field(repr=False)


@dataclass(frozen=True)
class Partial(Value):
    """`functools.partial(function, …)`, where the function is not pmap."""

    function: Value
    call: ast.Call
    file: File = field(repr=False)


@dataclass(frozen=True, eq=False)
class Transform(Value):
    """pmap, or a wrapper of it: calling it with a function maps that function over devices."""

    origin: str  # the library's name, such as `jax.pmap`
    keywords: Mapping[str, Located] = field(default_factory=dict)  # those the wrappers pass
    chain: tuple[str, ...] = ()  # the names of the wrappers, outermost first
    operand: int = 0  # the position of the function among the outermost wrapper's parameters
    operand_name: str = "fun"  # the name of that parameter
    certain: bool = True  # False if a wrapper may do something else, such as jit on one device


@dataclass(frozen=True, eq=False)
class Mapped(Value):
    """A function that has been pmapped."""

    transform: Transform
    operand: Located | Known | None
    node: ast.AST  # the call or the decorator
    file: File = field(repr=False)
    # The keywords of the call, and the keywords of wrappers that it does not override.
    keywords: Mapping[str, Located] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Output(Value):
    """The result of calling a pmapped function, or the part of it at a path."""

    mapped: Mapped
    call: ast.Call
    path: tuple[int | str, ...] = ()


@dataclass(frozen=True)
class Result(Value):
    """The result of calling a library function; `path` is the name of the function."""

    path: str
    call: ast.Call
    file: File = field(repr=False)


@dataclass(frozen=True)
class Element(Value):
    """One element of a value that is iterated over or unpacked."""

    of: Value


UNKNOWN = Unknown()
