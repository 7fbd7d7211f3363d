"""One parsed file: its text, its index, its sites, and the values of its expressions."""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Callable
from functools import cached_property, wraps
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from shardlift.source.model import Edit, Span, Version
from shardlift.source.reaching import reaching_bindings
from shardlift.source.resolve import Resolver
from shardlift.source.scopes import Index, end, grouped, position
from shardlift.source.text import Source, parse_source
from shardlift.source.values import External, Mapped, Transform, Value

if TYPE_CHECKING:
    from shardlift.source.mentions import Mention, Unfollowed
    from shardlift.source.project import Project
    from shardlift.source.shard_maps import ShardMap
    from shardlift.source.sites import Site

_Asked = TypeVar("_Asked", "File", "Project")
_More = ParamSpec("_More")
_Answer = TypeVar("_Answer")


def remembered(
    function: Callable[Concatenate[_Asked, _More], _Answer],
) -> Callable[Concatenate[_Asked, _More], _Answer]:
    """A function of a file, or of a project, that is asked often and looks once."""

    @wraps(function)
    def remembering(asked: _Asked, /, *more: _More.args, **named: _More.kwargs) -> _Answer:
        key = (function, *more, *named.items())
        if key not in asked.memo:
            asked.memo[key] = function(asked, *more, **named)
        answer: _Answer = asked.memo[key]
        return answer

    return remembering


class File:
    """A parsed file. Rules and rewrites take one as their argument."""

    def __init__(self, source: Source, project: Project, index: Index | None = None) -> None:
        """Parse and index the source; raises `UnreadableError` if it is not Python."""
        self.source = source
        self.path = source.path
        self.project = project
        self.index = index or Index(parse_source(source))
        self.resolver = Resolver(self)
        self.values = self.resolver.values  # all values that an expression may have
        self.exported = self.resolver.exported  # those of a name after the module has run
        # Cache of `as_transform`: the transform that each function is, if it wraps pmap.
        self.wrappers: dict[ast.FunctionDef, Transform | None] = {}
        # What rules ask again for every node of a long file, by the function that finds it.
        self.memo: dict[object, Any] = {}
        # For lines that are not ASCII, the byte at which each character ends.
        self._ends: dict[int, list[int]] = {}

    def only(self, node: ast.AST) -> Value | None:
        """The value of an expression, if there is only one possibility."""
        values = self.values(node)
        return values[0] if len(values) == 1 else None

    def definition(self, node: ast.expr) -> ast.expr:
        """The expression that is assigned to a name, if there is one plain assignment."""
        for _ in range(5):
            if not isinstance(node, ast.Name) or node not in self.index.scope_of:
                break
            bound = reaching_bindings(self.index, node)
            parent = self.index.parents.get(bound[0]) if len(bound) == 1 else None
            if not isinstance(parent, (ast.Assign, ast.AnnAssign, ast.NamedExpr)):
                break
            unpacks = isinstance(parent, ast.Assign) and bound[0] not in parent.targets
            if unpacks or parent.value is None or parent.value is node:
                break
            node = parent.value
        return node

    def name(self, node: ast.AST) -> str | None:
        """The library name of an expression: `jnp.sum` is `jax.numpy.sum`."""
        if not isinstance(node, (ast.Name, ast.Attribute)):
            return None
        value, *others = self.values(node)
        return value.path if isinstance(value, External) and not others else None

    def called(self, node: ast.AST | None) -> str | None:
        """The library name of the function that a call calls."""
        return self.name(node.func) if isinstance(node, ast.Call) else None

    @cached_property
    def library_calls(self) -> dict[str, list[ast.Call]]:
        """The calls of functions of libraries, by the names of the functions."""
        calls = grouped(self.index.nodes(ast.Call), self.called)
        return {name: calls[name] for name in calls if name is not None}

    def calls_of(self, *names: str) -> list[ast.Call]:
        """The calls of some functions of libraries."""
        return [call for name in names for call in self.library_calls.get(name, ())]

    @cached_property
    def sites(self) -> list[Site]:
        """Every place in this file where a function is pmapped."""
        from shardlift.source.sites import find_sites

        return find_sites(self)

    @cached_property
    def mentions(self) -> list[Mention]:
        """Every mention of pmap in this file, in source order."""
        from shardlift.source.mentions import find_mentions

        return sorted(find_mentions(self), key=lambda mention: self.span(mention.name))

    @cached_property
    def unfollowed(self) -> list[Unfollowed]:
        """Every call of something called pmap that cannot be followed to a library's pmap."""
        from shardlift.source.mentions import find_unfollowed

        return list(find_unfollowed(self)) if "pmap" in self.source.text else []

    @cached_property
    def mapped_calls(self) -> list[tuple[ast.Call, Mapped]]:
        """Every call of a function that is certainly pmapped."""
        from shardlift.source.sites import surely_mapped

        calls = self.index.nodes(ast.Call)
        return [(call, mapped) for call in calls if (mapped := surely_mapped(self, call.func))]

    @cached_property
    def unreplications(self) -> list[tuple[ast.Call, ast.expr]]:
        """Every call that reads the first replica of a tree, and the tree."""
        from shardlift.source.idioms import unreplicated_tree

        calls = self.index.nodes(ast.Call)
        return [(call, tree) for call in calls if (tree := unreplicated_tree(self, call))]

    @cached_property
    def shard_maps(self) -> list[ShardMap]:
        """Every shard_map in this file."""
        from shardlift.source.shard_maps import find_shard_maps

        return find_shard_maps(self)

    @property
    def target(self) -> Version:
        """The JAX version that findings are for."""
        return self.project.settings.target

    @property
    def many_processes(self) -> bool:
        """Whether several processes run the project of this file."""
        return self.project.has_many_processes(self.path)

    @cached_property
    def lines(self) -> list[str]:
        """The lines of the text without line ends; the last is empty if the text ends in one."""
        return [line.rstrip("\r\n") for line in self.source.lines]

    def span(self, node: ast.AST) -> Span:
        """The span of a node in characters; in its cell, if the file is a notebook."""
        start = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        stop = getattr(node, "end_lineno", None), getattr(node, "end_col_offset", None)
        return self.stretch(*start, stop[0] or start[0], stop[1] or start[1])

    def stretch(self, line: int, column: int, end_line: int, end_column: int) -> Span:
        """The span between two positions, given in lines and byte columns as in `ast`."""
        column, end_column = self._characters(line, column), self._characters(end_line, end_column)
        if self.source.cells is None:
            return Span(line, column, end_line, end_column)
        cell, first = self.source.cells.locate(line)
        return Span(first, column, first + end_line - line, end_column, cell)

    def _characters(self, line: int, column: int) -> int:
        if line > len(self.source.lines) or self.source.lines[line - 1].isascii():
            return column
        if line not in self._ends:
            widths = (len(character.encode()) for character in self.source.lines[line - 1])
            self._ends[line] = list(accumulate(widths))
        return bisect_right(self._ends[line], column)

    def margin(self, line: int) -> str:
        """The blanks at the start of a line."""
        text = self.lines[line - 1]
        return text[: -len(text.lstrip()) or None]

    def text(self, node: ast.AST) -> str:
        """The source text of a node."""
        (line, column), (last, end_column) = position(node), end(node)
        if not line:
            return ""
        lines = self.source.lines[line - 1 : last]
        lines[-1] = lines[-1][: self._characters(last, end_column)]
        lines[0] = lines[0][self._characters(line, column) :]
        return "".join(lines)

    def brief(self, node: ast.AST) -> str:
        """The source text of a node on one line, short enough for a message."""
        text = " ".join(self.text(node).split())
        return text if len(text) <= 40 else text[:37] + "..."

    def replace(self, node: ast.AST, text: str) -> Edit:
        """An edit that replaces a node by `text`."""
        return Edit(self.span(node), text)
