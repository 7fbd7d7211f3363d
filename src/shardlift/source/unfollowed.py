"""Calls of a function named pmap that cannot be followed to the pmap of a library.

These are calls by a table (`backend()["pmap"](f)`), of a pmap from a module that is not part of the
project, and of a function of the project named pmap that does one of these. They are pmap sites
too: the program is not yet migrated.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from shardlift.source.libraries import LIBRARIES
from shardlift.source.scopes import last_name
from shardlift.source.values import Argument, External, Known, Unknown
from shardlift.source.wrappers import as_transform

if TYPE_CHECKING:
    from shardlift.source.file import File
    from shardlift.source.values import Value

_NAME = "pmap"


class MappedBy(StrEnum):
    """What maps the function."""

    TABLE = "table"  # backend()["pmap"](f)
    LIBRARY = "library"  # a pmap from a module that is not part of the project
    FUNCTION = "function"  # a function of the project named pmap that calls one of these


@dataclass(frozen=True, eq=False)
class Unfollowed:
    """A call that cannot be followed."""

    call: ast.Call
    by: MappedBy
    name: str  # as the program writes it


def find_unfollowed(file: File) -> Iterator[Unfollowed]:
    """Find every such call in a file."""
    for call in file.index.nodes(ast.Call):
        if _is_entry(file, call.func):
            yield Unfollowed(call, MappedBy.TABLE, file.brief(call.func))
        elif last_name(call.func) == _NAME:
            values = file.values(call.func)
            if any(as_transform(value) for value in values):
                continue
            if any(isinstance(value, Known) and _maps(value) for value in values):
                yield Unfollowed(call, MappedBy.FUNCTION, file.brief(call.func))
            elif any(_is_foreign(file, call.func, value) for value in values):
                yield Unfollowed(call, MappedBy.LIBRARY, file.brief(call.func))


def _is_entry(file: File, node: ast.expr) -> bool:
    """`table["pmap"]`, unless the table is written out: then pmap is named there."""
    if not isinstance(node, ast.Subscript) or isinstance(file.definition(node.value), ast.Dict):
        return False
    return isinstance(node.slice, ast.Constant) and node.slice.value == _NAME


def _maps(function: Known) -> bool:
    """Whether a function calls something named pmap."""
    calls = (node for node in ast.walk(function.node) if isinstance(node, ast.Call))
    called = [call.func for call in calls]
    return any(_is_entry(function.file, one) or last_name(one) == _NAME for one in called)


def _is_foreign(file: File, node: ast.expr, value: Value) -> bool:
    """Whether a value comes from another module, in a file that uses JAX."""
    if "jax" not in file.source.text:
        return False
    if isinstance(value, External):
        return value.path.partition(".")[0] not in LIBRARIES
    # `library.pmap(f)`, where `library` is a parameter or is not known.
    bases = file.values(node.value) if isinstance(node, ast.Attribute) else ()
    return any(isinstance(base, (Unknown, Argument)) for base in bases)
