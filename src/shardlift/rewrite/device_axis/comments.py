"""Comments between the arguments of a pmap: they move above the statement, as one would by hand."""

from __future__ import annotations

import ast

from shardlift.rewrite.device_axis.sites import GlobalSite
from shardlift.source.comments import comments_in
from shardlift.source.file import File
from shardlift.source.model import Edit
from shardlift.source.scopes import end, position


def comments_above(site: GlobalSite) -> tuple[Edit, ...]:
    """The comments of a site's call, on lines of their own above its statement."""
    comments = _comments(site.file, site.node, site.options.operand)
    if not comments:
        return ()
    line = _first_line(site.file, site.node)
    margin = site.file.margin(line)
    lines = "".join(f"{margin}{comment}\n" for comment in comments)
    return (Edit(site.file.stretch(line, 0, line, 0), lines),)


def _comments(file: File, node: ast.expr, operand: ast.expr | None) -> list[str]:
    """The comments in the text of a call, without those of the function that it maps."""
    inside = (position(operand), end(operand)) if operand is not None else ((0, 0), (0, 0))
    found = []
    for comment in comments_in(f"({file.text(node)})"):
        line = node.lineno + comment.start[0] - 1
        if not inside[0] <= (line, comment.start[1]) <= inside[1]:
            found.append(comment.string)
    return found


def _first_line(file: File, node: ast.expr) -> int:
    """The first line of the statement that a site is in, with its decorators."""
    around = [node, *file.index.ancestors(node)]
    statement = next(one for one in around if isinstance(one, ast.stmt))
    decorators = getattr(statement, "decorator_list", ())
    return min([statement.lineno, *(one.lineno for one in decorators)])
