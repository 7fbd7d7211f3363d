"""Meshes at the site: where in a function or module the line that makes one is written."""

import ast
from dataclasses import dataclass

from shardlift.rewrite.call_format import CallText, Style, render
from shardlift.rewrite.goal import DEFAULT_AXIS, USUAL_AXIS
from shardlift.rewrite.names import first_free
from shardlift.source.file import File
from shardlift.source.mentions import Mention, Use
from shardlift.source.model import Edit
from shardlift.source.scopes import LOOPS, first_line
from shardlift.source.statements import block_of, newline

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BLOCKS = (*_DEFINITIONS, ast.ClassDef)


@dataclass(frozen=True)
class MeshKey:
    """What sites share that have one mesh: the function that makes it, its devices, the axis."""

    function: ast.AST | None  # None: the module
    devices: str
    axis: str  # as the text has it


def function_around(file: File, mention: Mention) -> ast.AST | None:
    """The function whose statements are around a site: a lambda has none."""
    at = file.index.parents[mention.node] if mention.use is Use.DECORATOR else mention.node
    return next((one for one in file.index.ancestors(at) if isinstance(one, _DEFINITIONS)), None)


def name_for(file: File, key: MeshKey, kind: str, value: str, used: set[str]) -> str:
    """A name for a mesh or its spec that nothing in the file has, unless it is just that."""
    own = key.axis[1:-1] if key.axis[1:-1] not in (DEFAULT_AXIS, USUAL_AXIS) else "device"
    candidates = (kind, f"{own}_{kind}", *(f"{kind}_{number}" for number in range(2, 99)))
    there = (n for n in candidates[:2] if n not in used and _is_there(file, n, value))
    functions = {function_around(file, mention) for mention in file.mentions}
    places = [one for one in functions if one is not None] if None not in functions else []
    return next(there, None) or first_free(file, candidates, used, places)


def statement_of(file: File, mention: Mention) -> ast.stmt:
    """The statement that a site is in."""
    statement = file.index.statement(mention.node)
    assert statement is not None
    return statement


def _place(file: File, key: MeshKey, statements: list[ast.stmt]) -> ast.stmt:
    """The statement above which a mesh is made for some statements of one function."""
    chains = [_chain(file, statement, key.function) for statement in statements]
    place = min((chain[0] for chain in chains), key=first_line)
    for level in zip(*chains, strict=False):
        if len({id(block_of(file, statement)) for statement in level}) > 1:
            break
        place = min(level, key=first_line)
        if len(set(level)) > 1 or isinstance(place, (*_BLOCKS, *LOOPS)):
            break
    return place


def _chain(file: File, statement: ast.stmt, function: ast.AST | None) -> list[ast.stmt]:
    """The statements around a statement in a function, from the outside."""
    chain = [statement]
    for around in file.index.ancestors(statement):
        if around is function:
            break
        if isinstance(around, ast.stmt):
            chain.append(around)
    return chain[::-1]


def insert_lines(
    file: File,
    key: MeshKey,
    lines: list[tuple[str, CallText]],
    statements: list[ast.stmt],
    style: Style,
) -> tuple[Edit, ...] | None:
    """The edit that assigns what is not there yet; None if there is no line for it."""
    missing = [(name, call) for name, call in lines if not _is_there(file, name, call.flat())]
    inside = [s for s in statements if key.function in (None, *file.index.ancestors(s))]
    place = _place(file, key, inside)
    line = first_line(place)
    margin, end = file.margin(line), newline(file)
    if len(margin.encode()) != place.col_offset:
        return None
    while line > 1 and file.lines[line - 2].startswith(f"{margin}#"):
        line -= 1  # a comment stays with its statement
    gap = isinstance(place, _BLOCKS) * (2 if place in file.index.root.body else 1)
    calls = [render(call, style, margin, len(margin) + len(name) + 3) for name, call in missing]
    made = [f"{margin}{n} = {call}\n" for (n, _), call in zip(missing, calls, strict=True)]
    text = ("".join(made) + "\n" * gap).replace("\n", end)
    edit = Edit(file.stretch(line, 0, line, 0), text)
    return (edit,) if missing else ()


def _is_there(file: File, name: str, value: str) -> bool:
    """Whether the module assigns this already."""
    made = [file.index.parents.get(node) for node in file.index.module.names.get(name, ())]
    text = ast.unparse(ast.parse(value, mode="eval"))
    return any(isinstance(one, ast.Assign) and ast.unparse(one.value) == text for one in made)
