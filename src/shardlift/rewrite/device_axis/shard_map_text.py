"""The plain text of a site: `jax.jit(jax.shard_map(...))` with specs, and rows read in the body."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath

from shardlift.rewrite.call_format import Argument, CallText
from shardlift.rewrite.device_axis.array_text import numpy_name
from shardlift.rewrite.device_axis.cells import CellRole, Point, find
from shardlift.rewrite.device_axis.followed_program import FollowedProgram
from shardlift.rewrite.device_axis.global_sites import GlobalSite
from shardlift.rewrite.device_axis.mesh import Meshes, axis_of, needs_helper, request_helper
from shardlift.rewrite.device_axis.reasons import Advice, Obstacle, ObstacleKind, obstacle
from shardlift.rewrite.device_axis.solve import AxisLayout, Decision
from shardlift.rewrite.device_axis.wrapper import Wrapper, filled, with_row, wrap
from shardlift.rewrite.forms import CallForm
from shardlift.rewrite.names import is_shadowed, jax_name, partial_name
from shardlift.rewrite.scripts import runs_at_import, runs_once
from shardlift.source.file import File
from shardlift.source.model import Edit, HelperRequest, Span
from shardlift.source.scopes import end, position, positional
from shardlift.source.text import comments_in
from shardlift.source.values import Known

AT_CALL = "shard_map_at_call"
_KEYS = (ast.Subscript, ast.Dict)  # a string there names no function
_COUNTED = (CellRole.ROWS, CellRole.REPLICATE, CellRole.SHARD, CellRole.OUTPUT)


def not_plain(program: FollowedProgram, site: GlobalSite, decision: Decision) -> Obstacle | None:
    """Why plain `jax.shard_map` cannot take the place of a site; None if it can."""
    if site.has_keywords:
        return obstacle(ObstacleKind.NO_KEYWORDS, Advice.BY_POSITION)
    if _is_compiled_once(site) and not runs_once(site.file, site.node):
        return obstacle(ObstacleKind.MAPPED_AGAIN, Advice.MAP_ONCE)
    if needs_wrapper(program, site, decision) and wrapper_of(program, site, decision) is None:
        kept = decision.kept_by(site)
        if kept is not None:
            return obstacle(ObstacleKind.NO_ROWS_OF, None, kept=kept)
        return obstacle(ObstacleKind.NO_ROWS, Advice.WRITE_OUT)
    return None


def needs_wrapper(program: FollowedProgram, site: GlobalSite, decision: Decision) -> bool:
    """Whether there is a lambda around the function of a site."""
    return bool(site.static) or row_edits(program, site, decision) is None


def wrapper_of(program: FollowedProgram, site: GlobalSite, decision: Decision) -> Wrapper | None:
    """The lambda around the function of a site, for static arguments and rows."""
    takes_rows = row_edits(program, site, decision) is None
    return wrap(program, site, decision, functools.partial(_row_of, site) if takes_rows else None)


def plain_form(
    site: GlobalSite, decision: Decision, meshes: Meshes
) -> tuple[CallForm, frozenset[HelperRequest]]:
    """The two calls of a site, and the helpers that they need."""
    file = site.file
    axis, written = axis_of(site)
    if runs_at_import(file, site.node) and not meshes.is_variable(file, axis):
        form = CallForm(_specs(site, decision, written), donation(site), written, name=AT_CALL)
        return form, frozenset({request_helper(file, AT_CALL)})
    return mapping_form(site, decision, meshes)


def mapping_form(
    site: GlobalSite, decision: Decision, meshes: Meshes
) -> tuple[CallForm, frozenset[HelperRequest]]:
    """The two calls of a site that is evaluated when devices may be touched."""
    file = site.file
    axis, written = axis_of(site)
    mesh = meshes.text(file, axis, written)
    inner = (f"mesh={mesh}", *_specs(site, decision, written), "check_vma=False")
    form = CallForm(inner, donation(site), None, name=f"{jax_name(file)[0]}.shard_map")
    return form, needs_helper(file, mesh)


def _specs(site: GlobalSite, decision: Decision, axis: str) -> tuple[Argument, Argument]:
    """`in_specs` and `out_specs`; one spec for all outputs if it is the same."""
    arguments = [k for k in range(site.arguments or 0) if k not in site.static]
    jax, outputs = jax_name(site.file)[0], decision.outputs(site)
    inputs = [spec(decision.argument(site, k), jax, axis) for k in arguments]
    specs = [spec(layout, jax, axis) for layout in outputs]
    is_one = len(set(specs)) == 1
    given = f"out_specs={specs[0]}" if is_one else CallText("out_specs=", (*specs,))
    return listed("in_specs", inputs), given


def spec(layout: AxisLayout, jax: str, axis: str) -> str:
    """The spec of a layout."""
    return f"{jax}.P()" if layout is AxisLayout.WHOLE else f"{jax}.P({axis})"


def listed(name: str, texts: Sequence[str]) -> Argument:
    """An argument that is a tuple."""
    return f"{name}=({texts[0]},)" if len(texts) == 1 else CallText(f"{name}=", (*texts,))


def donation(site: GlobalSite) -> tuple[str, ...]:
    """The option of jit that donates arguments, as the site has it."""
    donated = site.options.text("donate_argnums")
    return (f"donate_argnums={donated}",) if donated and donated not in ("()", "[]") else ()


def imports_of(site: GlobalSite) -> frozenset[str]:
    """What the text of a site imports."""
    imports = jax_name(site.file)[1]
    if site.options.operand is None and not isinstance(site.node, ast.Call):  # @jax.pmap
        imports |= partial_name(site.file)[1]
    return imports


# ---- comments between the arguments: they move above the statement, as one would by hand


def comments_above(site: GlobalSite) -> tuple[Edit, ...]:
    """The comments of a site's call, on lines of their own above its statement."""
    comments = _comments_of(site.file, site.node, site.options.operand)
    if not comments:
        return ()
    line = _first_line(site.file, site.node)
    margin = site.file.margin(line)
    lines = "".join(f"{margin}{comment}\n" for comment in comments)
    return (Edit(site.file.stretch(line, 0, line, 0), lines),)


def _comments_of(file: File, node: ast.expr, operand: ast.expr | None) -> list[str]:
    """The comments in the text of a call, outside of the function that it maps."""
    inside = (position(operand), end(operand)) if operand is not None else ((0, 0), (0, 0))
    texts = []
    for comment in comments_in(f"({file.text(node)})"):
        line = node.lineno + comment.start[0] - 1
        if not inside[0] <= (line, comment.start[1]) <= inside[1]:
            texts.append(comment.string)
    return texts


def _first_line(file: File, node: ast.expr) -> int:
    """The first line of the statement that a site is in, with its decorators."""
    around = [node, *file.index.ancestors(node)]
    statement = next(one for one in around if isinstance(one, ast.stmt))
    decorators = getattr(statement, "decorator_list", ())
    return min([statement.lineno, *(decorator.lineno for decorator in decorators)])


# ---- rows: what stays one per device


def _row_of(site: GlobalSite, number: int, name: str) -> str:
    """The row of an argument, an expression."""
    jax, is_leaf = jax_name(site.file)[0], _is_leaf(site, number, name)
    block = name if is_leaf else "x"
    # Where the number of rows is not known, it fails if there are more than devices, as pmap did.
    squeezed = f"{numpy_name(site.file, jax)}.squeeze({block}, 0)"
    row = f"{block}[0]" if _has_one_row(site, number) else squeezed
    return row if is_leaf else f"{jax}.tree.map(lambda x: {row}, {name})"


def row_edits(program: FollowedProgram, site: GlobalSite, decision: Decision) -> list[Edit] | None:
    """The edits of the mapped function: it takes and returns blocks of one row. None if it cannot.

    A lambda around it does that then.
    """
    arguments = range(site.arguments or 0)
    given = [k for k in arguments if decision.argument(site, k) is AxisLayout.STACKED]
    outputs = decision.outputs(site)
    returned = [k for k, layout in enumerate(outputs) if layout is AxisLayout.STACKED]
    if not given and not returned:
        return []
    function = site.function
    if function is None or function.file is not site.file or not _is_only_mapped(program, site):
        return None
    node, file = function.node, function.file
    if isinstance(node, ast.Lambda):
        # One over several lines moves with its call: its text cannot change as well.
        is_edited = (len(outputs) == 1 or not returned) and node.lineno == node.end_lineno
        return _lambda_edits(site, node, given, returned) if is_edited else None
    if not isinstance(node, ast.FunctionDef) or node.body[0].lineno == node.lineno:
        return None
    if node in file.index.generators or is_shadowed(file, node.body[0], jax_name(file)[0]):
        return None
    names = positional(node)[filled(site) :]
    if any(k >= len(names) for k in given):
        return None
    edits = [edit for k in given for edit in _take_row(site, k, names[k])]
    edits += _blank_line(file, node, edits)
    for expression in file.index.returns(node):
        added = _add_rows(site, expression, returned, len(outputs))
        if added is None:
            return None
        edits += added
    return edits


def _lambda_edits(
    site: GlobalSite, node: ast.Lambda, given: list[int], returned: list[int]
) -> list[Edit] | None:
    """A lambda that takes and returns blocks of one row, if it reads each of them once at most."""
    file, names = site.file, positional(node)
    edits: list[Edit] = []
    for number in given:
        name = names[number] if number < len(names) else ""
        loads = [n for n in file.index.within(node.body, ast.Name) if n.id == name]
        loads += [node.body] if isinstance(node.body, ast.Name) and node.body.id == name else []
        if len(loads) > 1 or any(
            file.index.scope_of.get(load) is not file.index.opens[node] for load in loads
        ):
            return None
        edits += [file.replace(load, _row_of(site, number, name)) for load in loads]
    body = _add_row(file, node.body, site.is_array(())) if returned else []
    return [*body[:1], *edits, *body[1:]]


def _is_only_mapped(program: FollowedProgram, site: GlobalSite) -> bool:
    """Whether nothing but the site mentions the function that it maps."""
    assert site.function is not None
    node = site.function.node
    name = getattr(node, "name", "")
    operand = site.options.operand
    if operand is node:  # a lambda
        return True
    if site.file.called(operand) == "functools.partial" and isinstance(operand, ast.Call):
        operand = operand.args[0] if operand.args else operand
    if operand is not None and not isinstance(operand, ast.Name):
        return False
    index = site.file.index
    loads = [n for n in index.nodes(ast.Name) if n.id == name and n is not operand]
    if operand is not None:
        if any(
            _may_reach(file, site.file, name) for file in program.files if file is not site.file
        ):
            return False
        attributes = any(one.attr == name for one in index.nodes(ast.Attribute))
        texts = [one for one in index.nodes(ast.Constant) if one.value == name]
        texts = [text for text in texts if not isinstance(index.parents[text], _KEYS)]
        return not loads and not attributes and not texts
    return not any(load in set(ast.walk(node)) for load in loads)


def _may_reach(other: File, file: File, name: str) -> bool:
    """Whether a file contains the names of a function and of its module, anywhere."""
    path = PurePath(file.path)
    words = name, path.parent.name if path.stem == "__init__" else path.stem
    return all(re.search(rf"\b{re.escape(word)}\b", other.source.text) for word in words)


def _take_row(site: GlobalSite, number: int, name: str) -> Iterator[Edit]:
    """`key[0]` where a parameter is used, or a statement at the top of the function."""
    assert site.function is not None
    file, node = site.file, site.function.node
    assert isinstance(node, ast.FunctionDef)
    loads = _loads(file, node, name)
    if not loads:
        return
    mine = file.index.scope_of.get(loads[0]) is file.index.opens[node]
    if _is_leaf(site, number, name) and len(loads) == 1 and mine:
        yield file.replace(loads[0], _row_of(site, number, name))
        return
    margin = file.margin(_first_statement(node).lineno)
    yield Edit(_top(file, node), f"{margin}{name} = {_row_of(site, number, name)}\n")


def _top(file: File, function: ast.FunctionDef) -> Span:
    """Where statements are added to a function: in front of its first one."""
    first = _first_statement(function)
    line = min([first.lineno, *(d.lineno for d in getattr(first, "decorator_list", ()))])
    return file.stretch(line, 0, line, 0)


def _blank_line(file: File, function: ast.FunctionDef, edits: Sequence[Edit]) -> list[Edit]:
    """A blank line between statements that are added and a definition below them."""
    top = _top(file, function)
    is_above = isinstance(_first_statement(function), (ast.FunctionDef, ast.ClassDef))
    return [Edit(top, "\n")] if is_above and any(edit.span == top for edit in edits) else []


def _has_one_row(site: GlobalSite, number: int) -> bool:
    """Whether an argument is made with as many rows as there are devices."""
    made = find(site.given[number][0]).made if number in site.given else []
    return bool(made) and all(point.role in _COUNTED for point in made)


def _loads(file: File, node: ast.FunctionDef, name: str) -> list[ast.Name]:
    """Where a parameter is read, up to the statement of the body that gives its name to another."""
    loads: list[ast.Name] = []
    mine = file.index.opens[node]
    for statement in node.body:
        names = [n for n in ast.walk(statement) if isinstance(n, ast.Name) and n.id == name]
        names = [n for n in names if file.index.binding_scope(n)[0] is mine]
        loads += [n for n in names if not isinstance(n.ctx, ast.Store)]
        is_bound = any(isinstance(n.ctx, ast.Store) for n in names)
        if is_bound and isinstance(statement, ast.Assign):
            break
    return loads


def _first_statement(node: ast.FunctionDef) -> ast.stmt:
    """The first statement of a function after its docstring."""
    first = node.body[0]
    is_doc = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return node.body[1] if is_doc and len(node.body) > 1 else first


def _is_leaf(site: GlobalSite, number: int, name: str) -> bool:
    """Whether an argument is one array: keys that were split, or as a run showed."""
    facts = site.facts
    is_known = facts is not None and facts.compile_count <= 1
    if facts is not None and is_known and any(leaf.path == name for leaf in facts.arguments):
        return True
    made = find(site.given[number][0]).made if number in site.given else []
    return bool(made) and all(map(_makes_a_leaf, made))


def _makes_a_leaf(made: Point) -> bool:
    if made.role is CellRole.OUTPUT and made.site is not None:
        return made.site.is_array(made.path)
    return made.role is CellRole.ROWS and made.at.file.called(made.at.node) == "jax.random.split"


def _add_rows(
    site: GlobalSite, expression: ast.expr, rows: list[int], length: int
) -> list[Edit] | None:
    """Give an axis to the outputs that stay one per device."""
    if not rows:
        return []
    leaves = [site.is_array((number,)) for number in rows]
    if length == 1 or (len(rows) == length and not all(leaves)):
        return _add_row(site.file, expression, site.is_array(()))
    if not isinstance(expression, ast.Tuple) or len(expression.elts) != length:
        return None
    if any(isinstance(element, ast.Starred) for element in expression.elts):
        return None
    edits: list[Edit] = []
    for number, is_leaf in zip(rows, leaves, strict=True):
        edits += _add_row(site.file, expression.elts[number], is_leaf)
    return edits


def _add_row(file: File, node: ast.expr, is_leaf: bool) -> list[Edit]:
    opening, closing = with_row(file, "\0", is_leaf).split("\0")
    if isinstance(node, ast.Tuple) and not file.text(node).startswith("("):
        opening, closing = f"{opening}(", f"){closing}"
    before = Edit(file.stretch(*position(node), *position(node)), opening)
    return [before, Edit(file.stretch(*end(node), *end(node)), closing)]


# ---- how often a place runs


def _is_compiled_once(site: GlobalSite) -> bool:
    """Whether pmap of the function again, which is at the top of a module, compiles nothing."""
    operand = site.options.operand
    value = site.file.only(operand) if isinstance(operand, ast.Name) else None
    is_known = isinstance(value, Known) and value.node in value.file.index.root.body
    return is_known and site.file.index.function_around(site.node) is not None
