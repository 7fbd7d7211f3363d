"""Functions mapped by something called pmap that cannot be followed to a library's pmap.

A backend table (`backend()["pmap"](f)`), a pmap that is imported from a module that is not among
the files, and a function of the project called pmap that does one of these. They are sites: a
program that has them is not done with pmap.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from shardlift.source.modules import LIBRARIES
from shardlift.source.values import Argument, External, Known, Unknown
from shardlift.source.wrappers import as_transform

if TYPE_CHECKING:
    from shardlift.source.file import File
    from shardlift.source.values import Value

_NAME = "pmap"


class MappedBy(StrEnum):
    """What maps the function."""

    TABLE = "table"  # backend()["pmap"](f)
    LIBRARY = "library"  # a pmap from a module that is not among the files
    FUNCTION = "function"  # a function of the project that is called pmap, and calls such a one


@dataclass(frozen=True, eq=False)
class Unfollowed:
    """One call."""

    call: ast.Call
    by: MappedBy
    name: str  # as the program writes it


def find_unfollowed(file: File) -> Iterator[Unfollowed]:
    """Every such call of a file."""
    for call in file.index.nodes(ast.Call):
        if _is_entry(file, call.func):
            yield Unfollowed(call, MappedBy.TABLE, file.brief(call.func))
        elif _last(call.func) == _NAME:
            values = file.values(call.func)
            if any(as_transform(value) for value in values):
                continue
            if any(isinstance(value, Known) and _maps(value) for value in values):
                yield Unfollowed(call, MappedBy.FUNCTION, file.brief(call.func))
            elif any(_is_foreign(file, call.func, value) for value in values):
                yield Unfollowed(call, MappedBy.LIBRARY, file.brief(call.func))


def _last(node: ast.expr) -> str:
    return getattr(node, "attr", "") or getattr(node, "id", "")


def _is_entry(file: File, node: ast.expr) -> bool:
    """`table["pmap"]`, unless the table is written out: then pmap is named there."""
    if not isinstance(node, ast.Subscript) or isinstance(file.definition(node.value), ast.Dict):
        return False
    return isinstance(node.slice, ast.Constant) and node.slice.value == _NAME


def _maps(function: Known) -> bool:
    """Whether a function calls something by the name of pmap, or a table's entry of that name."""
    calls = (node for node in ast.walk(function.node) if isinstance(node, ast.Call))
    return any(_is_entry(function.file, call.func) or _last(call.func) == _NAME for call in calls)


def _is_foreign(file: File, node: ast.expr, value: Value) -> bool:
    """Whether a value comes from elsewhere, and the file has to do with JAX."""
    if "jax" not in file.source.text:
        return False
    if isinstance(value, External):
        return value.path.partition(".")[0] not in LIBRARIES
    # `library.pmap(f)` of a parameter; a name that nothing binds is no library's.
    bases = file.values(node.value) if isinstance(node, ast.Attribute) else ()
    return any(isinstance(base, (Unknown, Argument)) for base in bases)
