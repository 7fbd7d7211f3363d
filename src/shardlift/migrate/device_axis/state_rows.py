"""The fields of a state that stay one per device: read and returned by a mapped function."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from shardlift.migrate.call_format import Argument, CallText, Style, render
from shardlift.migrate.device_axis.spelling import laid_out, numpy_name
from shardlift.migrate.device_axis.state_forms import Kind
from shardlift.migrate.device_axis.states import State
from shardlift.migrate.names import jax_name
from shardlift.source.file import File
from shardlift.source.model import Edit
from shardlift.source.scopes import end, position
from shardlift.source.values import Known

_PLACE = "\0"  # stands for an expression while the text around it is laid out
_NAMES = ("new_state", "next_state", "returned_state", "state_of_step")


@dataclass(frozen=True)
class StateText:
    """A state in the text of a file."""

    file: File
    state: State

    @property
    def style(self) -> Style:
        """The style of the file."""
        return Style.of(self.file.source.text)

    def each_field(self, name: str, written: Callable[[str], str]) -> CallText:
        """A state of this name, with the leaves of what stays apart written in another way."""
        form, style = self.state.form, self.style
        values = {
            field: self.on_leaves(field, form.read(name, field, style), written)
            for field in self.state.fields
        }
        return form.replaced(name, values, style)

    def on_leaves(self, field: str, value: str, written: Callable[[str], str]) -> Argument:
        """The value of a field, with its leaves written in another way."""
        if field in self.state.leaves:
            return written(value)
        jax = jax_name(self.file)[0]
        return CallText(f"{jax}.tree.map", (f"lambda x: {written('x')}", value))

    def assigned(self, name: str, call: CallText, margin: str) -> str:
        """A statement that gives a name a value."""
        opening = f"{name} = "
        return f"{margin}{opening}{render(call, self.style, margin, len(margin + opening))}\n"


def take_rows(file: File, state: State, name: str) -> CallText:
    """A state with the row of this device."""
    return StateText(file, state).each_field(name, lambda x: f"{x}[0]")


def add_rows(
    file: File, state: State, expression: ast.expr, function: ast.FunctionDef
) -> list[Edit] | None:
    """Give an axis to the fields of a returned state that stay one per device."""
    text, numpy = StateText(file, state), numpy_name(file, jax_name(file)[0])
    written = f"{numpy}.expand_dims({{}}, 0)".format
    if isinstance(expression, ast.Name):
        call = text.each_field(expression.id, written)
        return [file.replace(expression, laid_out(text.file, expression, call))]
    values = {name: _value_of(file, state, expression, name) for name in state.fields}
    if None in values.values():
        return _named_first(text, expression, function, written)
    return [edit for pair in values.items() for edit in _around(text, *pair, written)]  # type: ignore[arg-type]


def _around(
    text: StateText, field: str, node: ast.expr, written: Callable[[str], str]
) -> Iterator[Edit]:
    """The edits around an expression that is written out."""
    new = text.on_leaves(field, _PLACE, written)
    opening, closing = (new if isinstance(new, str) else new.flat()).split(_PLACE)  # type: ignore[union-attr]
    file = text.file
    yield Edit(file.stretch(*position(node), *position(node)), opening)
    yield Edit(file.stretch(*end(node), *end(node)), closing)


def _value_of(file: File, state: State, node: ast.expr, name: str) -> ast.expr | None:
    """The expression of a field where a state is written out; None if it is not."""
    if isinstance(node, ast.Dict) and state.form.kind is Kind.DICT:
        given = [v for k, v in zip(node.keys, node.values, strict=True) if _is_key(k, name)]
        last = [k for k in node.keys if k is None or _is_key(k, name)][-1:]
        return given[-1] if given and last != [None] else None
    if not isinstance(node, ast.Call) or any(isinstance(a, ast.Starred) for a in node.args):
        return None
    if any(keyword.arg is None for keyword in node.keywords):
        return None
    called = file.only(node.func)
    is_class = isinstance(called, Known) and isinstance(called.node, ast.ClassDef)
    is_copy = isinstance(node.func, ast.Attribute) and node.func.attr in ("replace", "_replace")
    if not is_class and not is_copy:
        return None
    given = [keyword.value for keyword in node.keywords if keyword.arg == name]
    order = state.form.order
    if is_class and state.form.owner is not None and name in order:
        given += node.args[order.index(name) : order.index(name) + 1]
    return given[0] if len(given) == 1 else None


def _is_key(node: ast.expr | None, name: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == name


def _named_first(
    text: StateText,
    expression: ast.expr,
    function: ast.FunctionDef,
    written: Callable[[str], str],
) -> list[Edit] | None:
    """A name for a returned state, in a statement above the return."""
    file = text.file
    statement = file.index.statement(expression)
    if not isinstance(statement, ast.Return) or "\n" in file.text(expression):
        return None
    line = file.lines[statement.lineno - 1]
    margin = line[: statement.col_offset]
    taken = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    name = next((one for one in _NAMES if one not in taken), None)
    if margin.strip() or name is None:
        return None
    call = text.each_field(name, written)
    above = f"{margin}{name} = {file.text(expression)}\n"
    return [
        Edit(file.stretch(statement.lineno, 0, statement.lineno, 0), above),
        file.replace(expression, laid_out(text.file, expression, call)),
    ]
