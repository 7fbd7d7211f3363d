"""One parsed file: its text, its index, its sites, and what its expressions stand for."""

from __future__ import annotations

import ast
from bisect import bisect_right
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from shardlift.source.edits import line_starts
from shardlift.source.model import Edit, Span, Version
from shardlift.source.reaching import reaching
from shardlift.source.resolve import Resolver
from shardlift.source.scopes import Index
from shardlift.source.text import Source, parse_source
from shardlift.source.values import External, Mapped, Transform, Value

if TYPE_CHECKING:
    from shardlift.source.mentions import Mention
    from shardlift.source.project import Project
    from shardlift.source.shard_maps import ShardMap
    from shardlift.source.sites import Site
    from shardlift.source.unfollowed import Unfollowed

_LONG_LINE = 10_000  # bytes; to count the characters of a longer one anew each time is slow


class File:
    """What rules are given."""

    def __init__(self, source: Source, project: Project) -> None:
        """Parse and index the source; raises `UnreadableError` if it is not Python."""
        self.source = source
        self.path = source.path
        self.project = project
        self.index = Index(parse_source(source))
        self.resolver = Resolver(self)
        # What each function of the file is as a wrapper of pmap, once it was asked.
        self.wrappers: dict[ast.FunctionDef, Transform | None] = {}
        # The expressions that each function returns, once they were asked for.
        self.returned: dict[ast.AST, list[ast.expr]] = {}
        # Of long lines, the byte at which each character ends.
        self._ends: dict[int, list[int]] = {}

    def __repr__(self) -> str:
        """The path: a file would print its whole tree otherwise."""
        return f"File({self.path!r})"

    def values(self, node: ast.AST) -> tuple[Value, ...]:
        """Everything that an expression may stand for."""
        return self.resolver.values(node)

    def exported(self, name: str) -> tuple[Value, ...]:
        """What a name of the module stands for once the module has run."""
        return self.resolver.exported(name)

    def only(self, node: ast.AST) -> Value | None:
        """The one thing that an expression can stand for, if there is just one."""
        values = self.values(node)
        return values[0] if len(values) == 1 else None

    def definition(self, node: ast.expr) -> ast.expr:
        """The expression behind a name that is bound once, by a plain assignment, in sight."""
        for _ in range(5):
            if not isinstance(node, ast.Name) or node not in self.index.scope_of:
                break
            bound = reaching(self.index, node)
            parent = self.index.parents.get(bound[0]) if len(bound) == 1 else None
            if not isinstance(parent, (ast.Assign, ast.AnnAssign, ast.NamedExpr)):
                break
            if isinstance(parent, ast.Assign) and bound[0] not in parent.targets:
                break
            if parent.value is None or parent.value is node:
                break
            node = parent.value
        return node

    def name(self, node: ast.AST) -> str | None:
        """The library name of an expression: `jnp.sum` is `jax.numpy.sum`."""
        if not isinstance(node, (ast.Name, ast.Attribute)):
            return None
        value = self.only(node)
        return value.path if isinstance(value, External) else None

    def called(self, node: ast.AST | None) -> str | None:
        """The library name of the function that a call calls."""
        return self.name(node.func) if isinstance(node, ast.Call) else None

    @cached_property
    def sites(self) -> list[Site]:
        """Every place in this file where a function is pmapped."""
        from shardlift.source.sites import find_sites

        return find_sites(self)

    @cached_property
    def mentions(self) -> list[Mention]:
        """Every place where this file names a library's pmap, in the order of the text."""
        from shardlift.source.mentions import find_mentions

        return sorted(find_mentions(self), key=lambda mention: self.span(mention.name))

    @cached_property
    def unfollowed(self) -> list[Unfollowed]:
        """Every call of something called pmap that cannot be followed to a library's pmap."""
        from shardlift.source.unfollowed import find_unfollowed

        return list(find_unfollowed(self)) if "pmap" in self.source.text else []

    @cached_property
    def mapped_calls(self) -> list[tuple[ast.Call, Mapped]]:
        """Every call of something that can only be a pmapped function."""
        from shardlift.source.sites import find_mapped_calls

        return list(find_mapped_calls(self))

    @cached_property
    def unreplications(self) -> list[tuple[ast.Call, ast.expr]]:
        """Every call that takes the first replica of a tree, and that tree."""
        from shardlift.source.idioms import unreplicated

        calls = self.index.nodes(ast.Call)
        return [(call, tree) for call in calls if (tree := unreplicated(self, call)) is not None]

    @cached_property
    def shard_maps(self) -> list[ShardMap]:
        """Every shard_map in this file."""
        from shardlift.source.shard_maps import find_shard_maps

        return find_shard_maps(self)

    @property
    def target(self) -> Version:
        """The JAX that findings are for."""
        return self.project.settings.target

    @property
    def many_processes(self) -> bool:
        """Whether the project that the file belongs to is run by several processes."""
        return self.project.many_processes

    @cached_property
    def lines(self) -> list[str]:
        """The lines of the text, without their ends; after a last end, one that is empty."""
        return [line.rstrip("\r\n") for line in self._whole_lines]

    @cached_property
    def _whole_lines(self) -> list[str]:
        text = self.source.text
        return [text[a:b] for a, b in pairwise([*line_starts(text), len(text)])]

    @cached_property
    def _bytes(self) -> list[bytes]:
        """The lines with their ends as `ast` counts their columns, encoded once."""
        return [line.encode() for line in self._whole_lines]

    def span(self, node: ast.AST) -> Span:
        """Where a node is, in characters, in its cell if the file is a notebook."""
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        end_line = getattr(node, "end_lineno", None) or line
        end_column = getattr(node, "end_col_offset", None) or column
        return self.stretch(line, column, end_line, end_column)

    def stretch(self, line: int, column: int, end_line: int, end_column: int) -> Span:
        """A span from the line and byte columns that `ast` counts in."""
        column, end_column = self._characters(line, column), self._characters(end_line, end_column)
        if self.source.cells is None:
            return Span(line, column, end_line, end_column)
        cell, first = self.source.cells.locate(line)
        return Span(first, column, first + end_line - line, end_column, cell)

    def _characters(self, line: int, column: int) -> int:
        if line > len(self._bytes) or self._whole_lines[line - 1].isascii():
            return column
        if len(self._bytes[line - 1]) < _LONG_LINE:
            return len(self._bytes[line - 1][:column].decode(errors="ignore"))
        if line not in self._ends:
            widths = (len(character.encode()) for character in self._whole_lines[line - 1])
            self._ends[line] = list(accumulate(widths))
        return bisect_right(self._ends[line], column)

    def text(self, node: ast.AST) -> str:
        """The source of a node, as it was written."""
        line, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", None) or 0
        if not line:
            return ""
        column, end = getattr(node, "col_offset", 0), getattr(node, "end_col_offset", 0)
        lines = self._bytes[line - 1 : last]
        if len(lines) == 1:
            return lines[0][column:end].decode(errors="replace")
        return b"".join([lines[0][column:], *lines[1:-1], lines[-1][:end]]).decode(errors="replace")

    def brief(self, node: ast.AST) -> str:
        """The source of a node on one line, short enough for a message."""
        text = " ".join(self.text(node).split())
        return text if len(text) <= 40 else text[:37] + "..."

    def replace(self, node: ast.AST, text: str) -> Edit:
        """An edit that puts `text` in the place of a node."""
        return Edit(self.span(node), text)
