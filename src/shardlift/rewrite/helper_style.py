"""The text of a helper as a project would write it: its indent, its quotes, annotations or none."""

import ast
import re
from collections.abc import Iterator

from shardlift.rewrite.alignment import Breaks, parts_of
from shardlift.rewrite.call_format import Style
from shardlift.source.edits import apply_edits
from shardlift.source.model import Edit, Span

_BROKEN = re.compile(r"^( *)(.*\()\n((?: +.*,\n)+| +.*\n) *(\).*)$", re.M)


def styled(source: str, style: Style) -> str:
    """An annotated definition, indented by four spaces, in another style."""
    text = source if style.typed else _without_annotations(source)
    text = _BROKEN.sub(_on_one_line, text)
    lines = [part for line in text.split("\n") for part in _broken(line, style)]
    text = "\n".join(lines)
    if style.quote == "'":
        parts = text.split('"""')
        code = [re.sub(r'"([^"\'\\\n]*)"', r"'\1'", part) for part in parts[::2]]
        parts[::2] = code  # not in docstrings
        text = '"""'.join(parts)
    return text if style.indent == "    " else _indent(text, style.indent)


def _broken(line: str, style: Style) -> Iterator[str]:
    """The lines that a formatter breaks one into that is too long."""
    code = line.lstrip()
    margin = line[: len(line) - len(code)]
    left = len(margin) // 4 * len(style.indent)
    breaks = Breaks(style.width + len(margin) - left, "    ", hugs=False)
    return parts_of(code, margin, breaks, is_inside=False)


def _indent(source: str, indent: str) -> str:
    """Another indent for blocks; lines within brackets are four spaces further in."""
    lines: list[str] = []
    depth = 0
    for line in source.split("\n"):
        code = line.lstrip()
        within = depth - code.startswith((")", "]", "}"))
        blocks = (len(line) - len(code)) // 4 - within
        hanging = "    " if indent == "  " else indent
        lines.append(f"{indent * blocks}{hanging * within}{code}" if code else "")
        bare = re.sub(r"#.*|\"[^\"]*\"|'[^']*'", "", code)
        depth += sum(map(bare.count, "([{")) - sum(map(bare.count, ")]}"))
    return "\n".join(lines)


def _without_annotations(source: str) -> str:
    lines = source.splitlines()
    functions = (n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef))
    edits = [edit for function in functions for edit in _in_signature(function, lines)]
    return apply_edits(source, edits).replace("  # type: ignore[attr-defined]", "")


def _in_signature(node: ast.FunctionDef, lines: list[str]) -> Iterator[Edit]:
    args = node.args
    defaults = dict(zip(reversed(args.args), reversed(args.defaults), strict=False))
    named = zip(args.kwonlyargs, args.kw_defaults, strict=True)
    defaults |= {arg: value for arg, value in named if value}
    others = [arg for arg in (args.vararg, args.kwarg) if arg]
    for arg in (*args.args, *args.kwonlyargs, *others):
        if arg.annotation is not None:
            start, default = arg.col_offset + len(arg.arg), defaults.get(arg)
            end = default.col_offset if default else arg.annotation.end_col_offset or start
            yield Edit(Span(arg.lineno, start, arg.lineno, end), "=" if default else "")
    if node.returns is not None:
        line = node.returns.lineno
        start = lines[line - 1].rindex(" ->", 0, node.returns.col_offset)
        yield Edit(Span(line, start, line, node.returns.end_col_offset or start), "")


def _on_one_line(match: re.Match[str]) -> str:
    """What stands between brackets, on one line with them."""
    margin, head, inner, tail = match.groups()
    listed = " ".join(line.strip() for line in inner.splitlines()).removesuffix(",")
    return f"{margin}{head}{listed}{tail}"
