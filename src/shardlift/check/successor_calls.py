"""Removed functions whose successor is called in another way: it depends on how each is used.

`axis_frame(name).size` is `axis_size(name)`, `index_update(x, i, y)` is `x.at[i].set(y)`. A use
that does not have such a form is left alone.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from shardlift.source.file import File
from shardlift.source.model import Edit
from shardlift.source.removed_names import OPTIONS, Removed
from shardlift.source.scopes import end
from shardlift.source.statements import delete
from shardlift.source.values import Result


@dataclass(frozen=True)
class SuccessorCall:
    """How one use is written anew: another text for the whole call, or another function."""

    edits: tuple[Edit, ...] = ()  # besides the new name of the function
    successor: str = ""  # the function to call instead; none if the edits replace the call


def successor_call(file: File, name: ast.expr, row: Removed) -> SuccessorCall | None:
    """What becomes of a use of a removed function; None if it cannot be told."""
    call = file.index.parents.get(name)
    if row.name == "jax.sharding.PmapSharding":
        checked = file.called(call) == "builtins.isinstance" and name in getattr(call, "args", ())
        return SuccessorCall((), "jax.sharding.NamedSharding") if checked else None
    form = _FORMS.get(row.name)
    if form is None or not isinstance(call, ast.Call) or call.func is not name:
        return None
    if any(isinstance(a, ast.Starred) for a in call.args) or any(not k.arg for k in call.keywords):
        return None
    return form(file, call)


def successor_value(file: File, node: ast.Attribute, row: Removed) -> Edit | None:
    """The text that takes the place of a removed constant."""
    if row.name not in _VALUES:
        return None
    text = _VALUES[row.name].format(file.text(node.value))
    parent = file.index.parents.get(node)
    is_bound = isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Pow)
    return file.replace(
        node, f"({text})" if is_bound or isinstance(parent, ast.Attribute) else text
    )


def flag_edit(file: File, node: ast.Attribute) -> Edit | None:
    """`config.FLAGS.name`, read or set, as `config.name` or `config.update("name", …)`."""
    option = file.index.parents.get(node)
    if not isinstance(option, ast.Attribute):
        return None
    config = file.text(node.value)
    if isinstance(option.ctx, ast.Load) and option.attr in {*_OF_COLAB, *OPTIONS}:
        call = file.index.parents[option]  # only print can go with the option
        statement = file.index.parents.get(call)
        if isinstance(statement, ast.Expr) and file.called(call) == "builtins.print":
            return delete(file, statement) if getattr(call, "args", ()) == [option] else None
        return None
    if isinstance(option.ctx, ast.Load):
        return file.replace(option, f"{config}.{option.attr}")
    statement = file.index.parents.get(option)
    if not isinstance(statement, ast.Assign) or statement.targets != [option]:
        return None
    if option.attr in _OF_COLAB:
        return delete(file, statement)
    return file.replace(
        statement, f"{config}.update({option.attr!r}, {file.text(statement.value)})"
    )


def call_statement(file: File, node: ast.AST) -> ast.stmt | None:
    """The statement that calls a function of a module, and does nothing else: `m.f()`."""
    parent = file.index.parents.get(node)
    while isinstance(parent, ast.Attribute):
        node, parent = parent, file.index.parents.get(parent)
    statement = file.index.parents.get(parent) if isinstance(parent, ast.Call) else None
    is_call = isinstance(parent, ast.Call) and parent.func is node
    return statement if is_call and isinstance(statement, ast.Expr) else None


def is_rewritten_along(file: File, name: ast.expr) -> bool:
    """Whether a use of `jax.ops.index` goes with the call that it is an argument of."""
    holder = file.index.parents.get(name)
    call = file.index.parents.get(holder) if isinstance(holder, ast.Subscript) else None
    form = _FORMS.get(file.called(call) or "") if file.name(name) == "jax.ops.index" else None
    return form is not None and isinstance(call, ast.Call) and form(file, call) is not None


def renamed_for(row: Removed, use: SuccessorCall) -> Removed:
    """The row as a plain renaming, for a use that calls another function."""
    return replace(row, successor=use.successor, same=True)


def _axis_frame(file: File, call: ast.Call) -> SuccessorCall | None:
    """The size of an axis; or, as a statement, the question whether the axis is bound.

    Up to JAX 0.4.35 it returned a frame, from 0.4.36 on the size: other uses are ambiguous.
    `axis_index` raises NameError for an axis that is not bound, as it did.
    """
    parent = file.index.parents.get(call)
    if len(call.args) != 1 or call.keywords:
        return None
    if isinstance(parent, ast.Attribute) and parent.attr == "size":
        rest = Edit(file.stretch(*end(call), *end(parent)), "")
        return SuccessorCall((rest,), "jax.lax.axis_size")
    return SuccessorCall((), "jax.lax.axis_index") if isinstance(parent, ast.Expr) else None


def _x64(default: str) -> Callable[[File, ast.Call], SuccessorCall | None]:
    def form(file: File, call: ast.Call) -> SuccessorCall | None:
        if call.args or call.keywords:
            return SuccessorCall((), "jax.enable_x64") if default == "True" else None
        return SuccessorCall((_before_bracket(file, call, default),), "jax.enable_x64")

    return form


def _pvary(file: File, call: ast.Call) -> SuccessorCall | None:
    text = file.source.text
    quote = "'" if text.count("'") > text.count('"') else '"'
    if len(call.args) != 2 or call.keywords or file.text(call).rstrip(" )\n").endswith(","):
        return None
    return SuccessorCall(
        (_before_bracket(file, call, f", to={quote}varying{quote}"),), "jax.lax.pcast"
    )


def _shuffle(file: File, call: ast.Call) -> SuccessorCall | None:
    """The same random bits: it shuffled each line along the axis on its own."""
    if not 2 <= len(call.args) <= 3 or file.text(call).rstrip(" )\n").endswith(","):
        return None
    more = _before_bracket(file, call, ", independent=True")
    return SuccessorCall((more,), "jax.random.permutation")


def _identity(file: File, call: ast.Call) -> SuccessorCall | None:
    """A function of abstract values that has returned its argument since JAX 0.4.36."""
    if len(call.args) != 1 or call.keywords or not isinstance(call.args[0], _ATOMS):
        return None
    return SuccessorCall((file.replace(call, file.text(call.args[0])),))


def _tie_in(file: File, call: ast.Call) -> SuccessorCall | None:
    """A no-op since JAX 0.2: it returned its second argument."""
    if len(call.args) != 2 or call.keywords:
        return None
    text, statement = file.text(call.args[1]), file.index.parents.get(call)
    if isinstance(statement, ast.Assign) and [*map(file.text, statement.targets)] == [text]:
        return SuccessorCall((delete(file, statement),))  # `x = x`
    return SuccessorCall((file.replace(call, text),))


def _indexed(method: str) -> Callable[[File, ast.Call], SuccessorCall | None]:
    def form(file: File, call: ast.Call) -> SuccessorCall | None:
        if len(call.args) != 3 or not isinstance(call.args[0], _ATOMS):
            return None
        array, index, value = call.args
        made = file.only(array)
        if isinstance(made, Result) and made.path.startswith("numpy."):
            return None  # an array of NumPy has no `.at`
        if isinstance(index, ast.Subscript) and file.name(index.value) == "jax.ops.index":
            index = index.slice
        options = "".join(f", {file.text(keyword)}" for keyword in call.keywords)
        text = f"{file.text(array)}.at[{file.text(index)}].{method}({file.text(value)}{options})"
        if "#" in text:
            return None  # a comment, perhaps
        one_line = re.sub(r"\s*\n\s*", " ", text)
        fits = call.col_offset + len(one_line) <= _WIDE
        return SuccessorCall((file.replace(call, one_line if fits else text),))

    return form


def _before_bracket(file: File, call: ast.Call, text: str) -> Edit:
    line, column = end(call)
    return Edit(file.stretch(line, column - 1, line, column - 1), text)


_WIDE = 100
# A driver for the TPUs of Colab that JAX no longer has.
_OF_COLAB = ("jax_xla_backend", "jax_backend_target")
_VALUES = {"jax.numpy.NINF": "-{}.inf", "jax.numpy.NZERO": "-0.0", "jax.numpy.PZERO": "0.0"}
_ATOMS = (ast.Name, ast.Attribute, ast.Subscript, ast.Call)
_FORMS: dict[str, Callable[[File, ast.Call], SuccessorCall | None]] = {
    "jax.core.axis_frame": _axis_frame,
    "jax.core.raise_to_shaped": _identity,
    "jax.core.full_lower": _identity,
    "jax.experimental.enable_x64": _x64("True"),
    "jax.experimental.disable_x64": _x64("False"),
    "jax.lax.pvary": _pvary,
    "jax.lax.tie_in": _tie_in,
    "jax.random.shuffle": _shuffle,
    **{
        f"jax.ops.index_{name}": _indexed(method)
        for name, method in {
            "update": "set", "add": "add", "mul": "multiply", "min": "min", "max": "max"
        }.items()
    },
}  # fmt: skip
