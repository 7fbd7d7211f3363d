"""The two calls that a pmap becomes, jit of a shard_map or of a helper, and their edits."""

import ast
import io
import re
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass, replace

from shardlift.rewrite.call_format import Argument, CallText, Style, TextBlock, render
from shardlift.rewrite.goal import DEFAULT_AXIS
from shardlift.rewrite.names import jax_name, partial_name
from shardlift.rewrite.options import Options, PlainOptions, UnsupportedError, each, plain_options
from shardlift.source.file import File
from shardlift.source.model import Edit
from shardlift.source.scopes import end, position
from shardlift.source.text import has_comment

PER_DEVICE = "shard_map_per_device"
ON_DEVICE = "_on_device"  # what follows the name of a function that another one maps
# A comment to mypy or ruff on a line of options alone, which goes with them.
_TO_TOOLS = re.compile(r"(\n[^#\n]*)# *(type: *ignore|noqa)[^#\n]*$", re.MULTILINE)
_PLACE = "\0"  # stands for the mapped function while the text around it is laid out


@dataclass(frozen=True)
class CallForm:
    """The arguments of the two calls that a pmap becomes."""

    inner: tuple[Argument, ...]  # of the inner call, after the function; positional ones first
    outer: tuple[Argument, ...]  # of jax.jit, after the function
    axis: str | None  # the axis name alone, if it is given
    name: str = PER_DEVICE
    is_jitted: bool = True  # jax.jit is around it
    rows: str = ""  # what is around the function, so that it sees its row alone
    in_axes: tuple[str, ...] = ()  # what that is given, if some arguments are whole
    of: str = ""  # the parameter of which the function is a method
    bound: tuple[str, ...] = ()  # what the function is given beforehand, of the parameters
    # Of a lambda in which the inner call is made, and what that is called with.
    parameters: str = ""
    arguments: str = ""


def form_of(levels: Sequence[Options], style: Style) -> CallForm:
    """The form of pmaps that are one directly inside the other, outermost first."""
    plain = [plain_options(level) for level in levels]
    if any(level != PlainOptions(level.axis, 0, 0, ()) for level in plain):
        raise UnsupportedError(_by_hand(plain))
    names = [
        level.text("axis_name") or style.string(f"{DEFAULT_AXIS}_{number}")
        for number, level in enumerate(levels)
    ]
    if len(set(names)) != len(names):
        raise UnsupportedError("two of the nested pmaps have the same axis name")
    return CallForm((), levels[0].donation, f"({', '.join(names)})")


def _by_hand(levels: Sequence[PlainOptions]) -> str:
    """What to write in place of nested pmaps with options that are not rewritten."""
    names = ", ".join(repr(level.axis or f"{DEFAULT_AXIS}_{k}") for k, level in enumerate(levels))
    advice = f"write one jax.shard_map over a mesh of the axes ({names})"
    given = [level.in_axes for level in levels]
    number = max((len(axes) for axes in given if isinstance(axes, tuple)), default=1)
    rows = [each(axes, number) for axes in given]
    is_leading = all(len(row) == number and not any(row) for row in rows)  # 0 and None alone
    if is_leading and not any(level.static or level.out_axes != 0 for level in levels):
        mapped = [[level for level, axis in zip(levels, column, strict=True) if axis == 0]
                  for column in zip(*rows, strict=True)]  # fmt: skip
        specs = [f"jax.P({', '.join(repr(level.axis) for level in one)})" for one in mapped]
        advice += f", with in_specs=({', '.join(specs)}) and out_specs=jax.P({names}); "
        advice += "in its body each array has an axis of size 1 for each axis of its spec"
    return f"nested pmaps with static arguments, in_axes or out_axes: {advice}"


def call_text(form: CallForm, file: File, function: Argument, under_jit: bool = False) -> CallText:
    """`jax.jit(jax.shard_map(function, …), …)`; under a jit already, without another."""
    jax, _ = jax_name(file)
    axis = (form.axis,) if form.axis else ()
    if form.bound:
        function = CallText(partial_name(file)[0], (function, *form.bound))
    function = CallText(form.rows, (function, *form.in_axes)) if form.rows else function
    inner = CallText(form.name, (function, *axis, *form.inner))
    if form.parameters:
        called = f"lambda {form.parameters}: {form.name}"
        inner = replace(inner, function=called, after=f"({form.arguments})")
    is_jitted = form.is_jitted and (form.outer or not under_jit)
    return CallText(f"{jax}.jit", (inner, *form.outer)) if is_jitted else inner


def edits_of(
    file: File, node: ast.expr, operand: ast.expr | None, form: CallForm, style: Style
) -> tuple[Edit, ...]:
    """The edits that put a form in the place of a call of pmap, or of a decorator.

    What is around the function changes; its own lines are only moved sideways, if at all.
    """
    if operand is None and form.parameters:
        return _wrapped(file, node, form, style)
    if operand is None:
        return (Edit(file.span(node), decorators(file, [node], form, style)),)
    assert isinstance(node, ast.Call)
    function = file.text(operand)
    # To move a string that spans lines would change it.
    strings = (n for n in ast.walk(operand) if isinstance(n, (ast.Constant, ast.JoinedStr)))
    if "\n" in function and all(text.lineno == text.end_lineno for text in strings):
        lines = TextBlock(function, file.margin(operand.lineno))
        return (file.replace(node, _laid_out(file, node, form, style, lines)),)
    # A name as long as the function keeps the layout right.
    stand_in = _PLACE.ljust(len(function), "x") if "\n" not in function else f"{_PLACE}\n"
    text = _laid_out(file, node, form, style, stand_in)
    before, after = text.split(stand_in)
    return around(file, node, operand, before, after)


def around(
    file: File, node: ast.AST, inner: ast.AST, opening: str, closing: str
) -> tuple[Edit, Edit]:
    """The edits that put other text around a part of a node."""
    head = file.stretch(*position(node), *position(inner))
    tail = file.stretch(*end(inner), *end(node))
    return Edit(head, opening), Edit(tail, closing)


def is_wrappable(file: File, decorator: ast.expr) -> bool:
    """Whether a decorated function can have another name, and one with its name be below it."""
    function = file.index.parents[decorator]
    if not isinstance(function, ast.FunctionDef) or len(function.decorator_list) > 1:
        return False
    arguments = function.args
    others = arguments.vararg or arguments.kwarg or arguments.kwonlyargs
    named = {n.id for n in ast.walk(function) if isinstance(n, ast.Name)}
    new = f"{function.name}{ON_DEVICE}"
    if isinstance(file.index.parents[function], ast.ClassDef):  # a class below may have it
        is_taken = any(file.project.paths_with(new))
    else:
        is_taken = new in file.index.names
    return not is_taken and not others and function.name not in named


def _header(file: File, function: ast.FunctionDef) -> str:
    """The text of a function up to the colon before its body."""
    text = file.text(between(position(function), position(function.body[0])))
    depth = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        depth += (token.string in tuple("([{")) - (token.string in tuple(")]}"))
        if token.string == ":" and not depth:
            line, column = token.end
            return "\n".join([*text.split("\n")[: line - 1], token.line[:column]])
    raise AssertionError(text)


def _wrapped(file: File, decorator: ast.expr, form: CallForm, style: Style) -> tuple[Edit, ...]:
    """The function under another name, and below it one that binds and maps it."""
    function = file.index.parents[decorator]
    assert isinstance(function, ast.FunctionDef)
    margin, header = file.margin(function.lineno), _header(file, function)
    inner = f"{function.name}{ON_DEVICE}"
    partial, (jax, _) = partial_name(file)[0], jax_name(file)
    mapped = f"{form.of}.{inner}" if form.of else inner
    bound = CallText(partial, (mapped, *form.bound)) if form.bound else mapped
    row = CallText(form.rows, (bound, *form.in_axes))
    call = CallText(f"return {form.name}", (row, *form.inner), after=f"({form.arguments})")
    jitted = CallText(partial, (f"{jax}.jit", *form.outer))
    deeper = margin + style.indent
    lines = [
        f"{margin}@{render(jitted, style, margin, len(margin) + 1)}",
        f"{margin}{header}",
        f"{deeper}{render(call, style, deeper, len(deeper))}",
    ]
    gap = "\n" * (3 if function in file.index.root.body else 2)
    line, column = position(function)
    name = column + len("def ")
    return (
        Edit(file.stretch(decorator.lineno, len(margin), line, column), ""),
        Edit(file.stretch(line, name, line, name + len(function.name)), inner),
        Edit(file.stretch(*end(function), *end(function)), gap + "\n".join(lines)),
    )


def _laid_out(file: File, call: ast.Call, form: CallForm, style: Style, function: Argument) -> str:
    parent = file.index.parents.get(call)
    under_jit = file.called(parent) == "jax.jit" and call in getattr(parent, "args", ())[:1]
    last = file.lines[(call.end_lineno or call.lineno) - 1]
    after = max(len(last.rstrip()) - (call.end_col_offset or 0), 0)
    wanted = call_text(form, file, function, under_jit)
    return render(wanted, style, file.margin(call.lineno), call.col_offset, after)


def decorators(file: File, stack: list[ast.expr], form: CallForm, style: Style) -> str:
    """The decorators that replace a stack of decorators, without the first @."""
    partials = [file.text(decorator.func) for decorator in stack if isinstance(decorator, ast.Call)]
    partial = partials[0] if partials else partial_name(file)[0]
    names = (f"axis_name={form.axis}",) if form.axis else ()
    lines = [
        *([_apply(partial, f"{jax_name(file)[0]}.jit", form.outer)] if form.is_jitted else []),
        _apply(partial, form.name, (*names, *form.inner))
        if form.axis or not form.rows or not form.inner
        else CallText(form.name, form.inner),
        *([_apply(partial, form.rows, form.in_axes)] if form.rows else []),
    ]
    margin = file.margin(stack[0].lineno)
    texts = [
        line if isinstance(line, str) else render(line, style, margin, len(margin) + 1)
        for line in lines
    ]
    return f"\n{margin}@".join(texts)


def _apply(partial: str, name: str, arguments: tuple[Argument, ...]) -> str | CallText:
    return CallText(partial, (name, *arguments)) if arguments else name


def has_comments(file: File, node: ast.expr, operand: ast.expr | None) -> bool:
    """Whether there are comments in the text that such edits would replace."""
    gaps = [node]
    if operand is not None:
        gaps = [between(position(node), position(operand)), between(end(operand), end(node))]
    return any(has_comment(_TO_TOOLS.sub(r"\1", file.text(gap))) for gap in gaps)


def between(first: tuple[int, int], after: tuple[int, int]) -> ast.expr:
    """A node that stands for a stretch of text."""
    line, column = first
    last, last_column = after
    return ast.Name(
        "_", lineno=line, col_offset=column, end_lineno=last, end_col_offset=last_column
    )
