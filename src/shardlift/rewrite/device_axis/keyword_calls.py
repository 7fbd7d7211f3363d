"""Calls of a pmapped function with keyword arguments, which jax.shard_map does not take.

They are given by position instead, if the function has them in the same order. A partial that fills
the parameters before them by keyword fills these by position as well.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from shardlift.rewrite.device_axis.followed_program import PendingCall
from shardlift.rewrite.device_axis.global_sites import GlobalSite
from shardlift.rewrite.sites import has_long_strings
from shardlift.source.file import File
from shardlift.source.model import Edit, Kind, Match
from shardlift.source.scopes import position, positional
from shardlift.source.values import Known


def by_position(site: GlobalSite, call: PendingCall) -> bool:
    """Whether the keyword arguments of a call can be given by position."""
    keywords, count = call.call.keywords, len(call.arguments)
    names, function = [keyword.arg for keyword in keywords], site.function
    if not keywords or not call.plain or function is None:
        return False
    filled = _filled(site)
    if filled is None:
        return False
    # What pmap is told of positions does not hold for keyword arguments.
    numbers = range(count, count + len(names))
    if any(k in (*site.donated, *site.static) or site.in_axis(k) != 0 for k in numbers):
        return False
    free = positional(function.node)[filled:]  # type: ignore[arg-type]
    is_written = all(_name_width(call.at.file, one) for one in keywords)
    return free[count : count + len(names)] == names and is_written


def _filled(site: GlobalSite) -> int | None:
    """How many parameters of the function a partial fills, in their order; None if not known."""
    operand, function = site.options.operand, site.function
    if function is None:
        return None
    if operand is None:
        return 0
    value = site.file.only(operand)
    if isinstance(value, Known):
        return 0 if value.node is function.node else None
    partial = _partial(site.file, operand)
    inner = site.file.only(partial.args[0]) if partial is not None else None
    if partial is None or not isinstance(inner, Known) or inner.node is not function.node:
        return None
    return len(partial.args) - 1 + len(_moved(site))


def _partial(file: File, node: ast.expr | None) -> ast.Call | None:
    """The call of functools.partial that an expression is, if it unpacks nothing."""
    if not isinstance(node, ast.Call) or file.called(node) != "functools.partial":
        return None
    return None if any(isinstance(arg, ast.Starred) for arg in node.args) else node


def _moved(site: GlobalSite) -> list[ast.keyword]:
    """The keywords of a partial that fill the next parameters, in their order."""
    partial, moved = _partial(site.file, site.options.operand), list[ast.keyword]()
    if partial is None or site.function is None or has_long_strings(partial):
        return moved
    names = positional(site.function.node)[len(partial.args) - 1 :]  # type: ignore[arg-type]
    for keyword, name in zip(partial.keywords, names, strict=False):
        if keyword.arg != name or not _name_width(site.file, keyword):
            break
        moved.append(keyword)
    return moved


def _name_width(file: File, keyword: ast.keyword) -> int:
    """How many bytes `name=` takes; 0 if there is more between the name and the value."""
    line, column = position(keyword)
    rest = file.lines[line - 1].encode()[column:]
    match = re.match(rf"{re.escape(keyword.arg or '**')} *= *(?=[^\s#\\])".encode(), rest)
    return match.end() if match is not None else 0


def unnamed_operand(site: GlobalSite) -> str | None:
    """The new text of a partial around the function of a site, if it changes."""
    operand, moved = site.options.operand, _moved(site) if site.named else []
    if operand is None or not moved:
        return None
    lines = [line.encode() for line in site.file.text(operand).split("\n")]
    for keyword in reversed(moved):
        line, column = position(keyword)
        number = line - operand.lineno
        column -= operand.col_offset if number == 0 else 0
        after = column + _name_width(site.file, keyword)
        lines[number] = lines[number][:column] + lines[number][after:]
    return b"\n".join(lines).decode()


def unnamed_calls(site: GlobalSite) -> Iterator[tuple[File, Match]]:
    """The edits of the calls of a site."""
    for file, call in site.calls if site.named else ():
        edits = _without_names(file, call.keywords)
        yield file, Match(call.keywords[0], "", tuple(edits), kind=Kind.DEVICE_AXIS)


def _without_names(file: File, keywords: Sequence[ast.keyword]) -> list[Edit]:
    edits = []
    for keyword in keywords:
        line, column = position(keyword)
        edits.append(
            Edit(file.stretch(line, column, line, column + _name_width(file, keyword)), "")
        )
    return edits
