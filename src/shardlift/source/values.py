"""What an expression can stand for, as far as pmap code needs to know."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shardlift.source.scopes import Function

if TYPE_CHECKING:
    from shardlift.source.file import File


@dataclass(frozen=True)
class Unknown:
    """Could be anything."""


@dataclass(frozen=True)
class Constant:
    """A literal string, number, bool or None."""

    value: object


@dataclass(frozen=True)
class External:
    """A dotted name of a library: `jax.numpy.sum`."""

    path: str


@dataclass(frozen=True)
class Known:
    """A function or class that the files define."""

    node: Function | ast.ClassDef
    file: File = field(repr=False)


@dataclass(frozen=True)
class Instance:
    """An object of a class that the files define; `self`, mostly."""

    node: ast.ClassDef
    file: File = field(repr=False)


@dataclass(frozen=True)
class Argument:
    """A parameter, seen from inside its function."""

    node: ast.arg
    function: Function


@dataclass(frozen=True)
class Located:
    """An expression together with the file that it stands in."""

    node: ast.expr
    file: File = field(repr=False)


@dataclass(frozen=True)
class Partial:
    """`functools.partial(function, …)`, where the function is not pmap."""

    function: Value
    call: ast.Call
    file: File = field(repr=False)


@dataclass(frozen=True, eq=False)
class Transform:
    """Something that maps a function over devices when it is called with one: pmap, dressed up.

    `origin` is the library's own name; `keywords` is what the wrappers on the way have filled in;
    `chain` names those wrappers, outermost first; `operand` is the position at which the
    outermost one takes the function, and `operand_name` the name of that parameter. A wrapper
    that may also do something else, such as jit on a single device, is not `certain`.
    """

    origin: str
    keywords: Mapping[str, Located] = field(default_factory=dict)
    chain: tuple[str, ...] = ()
    operand: int = 0
    operand_name: str = "fun"
    certain: bool = True


@dataclass(frozen=True, eq=False)
class Mapped:
    """A function that has been pmapped."""

    transform: Transform
    operand: Located | Known | None
    # The call or the decorated def where it happens.
    node: ast.AST
    file: File = field(repr=False)
    # What the call says, over what the wrappers said.
    keywords: Mapping[str, Located] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Output:
    """What a call of a pmapped function returns, or a part of it by indices and attributes."""

    mapped: Mapped
    call: ast.Call
    path: tuple[int | str, ...] = ()


@dataclass(frozen=True)
class Result:
    """What a call of a library function returns; `path` is the function's name."""

    path: str
    call: ast.Call
    file: File = field(repr=False)


@dataclass(frozen=True)
class Element:
    """One element of something that is iterated over or unpacked."""

    of: Value


Value = (
    Unknown
    | Constant
    | External
    | Known
    | Instance
    | Argument
    | Partial
    | Transform
    | Mapped
    | Output
    | Result
    | Element
)
UNKNOWN = Unknown()
