"""Removed functions whose successor is called in another way: it depends on how each is used.

`axis_frame(name).size` is `axis_size(name)`, `index_update(x, i, y)` is `x.at[i].set(y)`. A use
that does not have such a form is left alone.
"""

import ast
import re
from dataclasses import dataclass

from shardlift.source.file import File
from shardlift.source.model import Edit
from shardlift.source.removed_names import OPTIONS, UPDATES, VALUES, Removed
from shardlift.source.scopes import all_arguments, end, has_star, position
from shardlift.source.statements import delete, delete_with_branch, string
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
    if row.name.endswith("pxla.ShardedDeviceArray"):
        return SuccessorCall((), row.successor) if _is_any_array(file, name) else None
    is_called = isinstance(call, ast.Call) and call.func is name
    return _rewritten(file, call, row.name) if is_called else None


def _is_any_array(file: File, name: ast.expr) -> bool:
    """Whether the type of what pmap returned may be that of all arrays: nothing else is for others.

    That is a type among others, an annotation, and a check before what is done to such an array.
    """
    test, statement = file.index.parents[name], file.index.statement(name)
    if isinstance(test, ast.Call) and file.called(test) == "builtins.isinstance":
        parent = file.index.parents[test]
        if isinstance(parent, ast.BoolOp) and isinstance(parent.op, ast.And):
            test = parent
        if isinstance(statement, ast.If):
            is_jump = isinstance(statement.body[-1], (ast.Return, ast.Raise, ast.Continue))
            return statement.test is test and not statement.orelse and not is_jump
        return isinstance(statement, ast.Assert) and statement.test is test
    return not isinstance(test, (ast.Call, ast.Compare))


def as_instance(file: File, name: ast.expr, row: Removed) -> tuple[Edit, ...] | None:
    """The edits from `type(x) is DeviceArray` to `isinstance`: `jax.Array` is no array's own class.

    None if a type is compared with it in another way.
    """
    test = file.index.parents.get(name)
    if not row.name.endswith("DeviceArray") or not isinstance(test, ast.Compare):
        return ()
    is_type = file.called(test.left) == "builtins.type" and test.comparators == [name]
    if not is_type or not isinstance(test.left, ast.Call) or len(test.left.args) != 1:
        return None
    negated = "not " * isinstance(test.ops[0], (ast.IsNot, ast.NotEq))
    return (
        file.replace(test.left.func, f"{negated}isinstance"),
        Edit(file.stretch(*end(test.left.args[0]), *position(name)), ", "),
        Edit(file.stretch(*end(name), *end(name)), ")"),
    )


def _rewritten(file: File, call: ast.AST | None, removed: str) -> SuccessorCall | None:
    """The call of a removed function, written for its successor."""
    if not isinstance(call, ast.Call) or has_star(call.args):
        return None
    if any(not keyword.arg for keyword in call.keywords):
        return None
    match removed, len(call.args), len(call.keywords):
        case "jax.core.axis_frame", 1, 0:
            return _axis_frame(file, call)
        case "jax.lib.xla_bridge.get_backend", 0, 0:
            return _of_result(file, call, "platform", "jax.default_backend")
        # Functions of abstract values that have returned their argument since JAX 0.4.36.
        case "jax.core.raise_to_shaped" | "jax.core.full_lower", 1, 0:
            text = file.text(call.args[0])
            is_atom = isinstance(call.args[0], _ATOMS)
            return SuccessorCall((file.replace(call, text),)) if is_atom else None
        case "jax.experimental.enable_x64", 0, 0:
            return _with_argument(file, call, "jax.enable_x64", "True")
        case "jax.experimental.enable_x64", _, _:
            return SuccessorCall((), "jax.enable_x64")
        case "jax.experimental.disable_x64", 0, 0:
            return _with_argument(file, call, "jax.enable_x64", "False")
        case "jax.lax.pvary", 2, 0:
            return _with_argument(file, call, "jax.lax.pcast", f", to={string(file, 'varying')}")
        case "jax.experimental.host_callback.id_tap", 2, 0:  # no transformations are told
            return _tap(file, call, _with_argument(file, call, "jax.debug.callback", ", ()"))
        case "jax.experimental.host_callback.id_print", 1, 0:
            text = f"{string(file, '{}')}, {file.text(call.args[0])}"
            printed = (file.replace(call.args[0], text),)
            return _tap(file, call, SuccessorCall(printed, "jax.debug.print"))
        case "jax.experimental.host_callback.call", 2, 0 | 1:
            return _io_callback(file, call)
        # What copies of JAX's initializers have, such as those of T5X in whisper-jax.
        case "jax.core.as_named_shape", 1, 0:
            return _same(file, call, call.args[0])
        case "jax.core.canonicalize_shape", 1, 0:
            text = f"tuple({file.text(call.args[0])})"
            return SuccessorCall((file.replace(call, text),))
        case "jax.lax.tie_in", 2, 0:  # nothing is done to make the first
            is_value = isinstance(call.args[0], ast.Name) and isinstance(call.args[1], _ATOMS)
            return _same(file, call, call.args[1]) if is_value else None
        case "jax.util.unzip2" | "jax.util.unzip3", 1, 0:
            return _unzipped(file, call, "(), " * int(removed[-1]))
        # The same random bits: it shuffled each line along the axis on its own.
        case "jax.random.shuffle", 2 | 3, _:
            return _with_argument(file, call, "jax.random.permutation", ", independent=True")
        case _, 3, _ if removed in UPDATES:
            return _update(file, call, UPDATES[removed])
    return None


def _with_argument(file: File, call: ast.Call, successor: str, text: str) -> SuccessorCall | None:
    """A call of the successor with one argument more, in front of the closing bracket."""
    if file.text(call).rstrip(" )\n").endswith(","):
        return None
    line, column = end(call)
    return SuccessorCall((Edit(file.stretch(line, column - 1, line, column - 1), text),), successor)


def _tap(file: File, call: ast.Call, use: SuccessorCall | None) -> SuccessorCall | None:
    """A call that returned its last argument: alone, or assigned to what that is."""
    statement, value = file.index.parents.get(call), file.text(call.args[-1])
    if isinstance(statement, ast.Assign) and [*map(file.text, statement.targets)] == [value]:
        name = Edit(file.stretch(*position(statement), *position(call)), "")
        return use and SuccessorCall((name, *use.edits), use.successor)
    return use if isinstance(statement, ast.Expr) else None


def _io_callback(file: File, call: ast.Call) -> SuccessorCall | None:
    """`io_callback(f, shape, x)` for `call(f, x, result_shape=shape)`."""
    argument, successor = call.args[1], "jax.experimental.io_callback"
    text = file.text(argument)
    if not call.keywords:
        return SuccessorCall((file.replace(argument, f"None, {text}"),), successor)
    (keyword,) = call.keywords
    swapped = file.replace(argument, file.text(keyword.value)), file.replace(keyword, text)
    return SuccessorCall(swapped, successor) if keyword.arg == "result_shape" else None


def successor_value(file: File, node: ast.Attribute, row: Removed) -> Edit | None:
    """The text that takes the place of a removed constant, or of a class in an annotation."""
    parent = file.index.parents.get(node)
    if row.name == "jax.core.NamedShape" and isinstance(parent, ast.FunctionDef):
        is_type = any(argument.annotation is node for argument in all_arguments(parent.args))
        return file.replace(node, "tuple") if is_type else None
    if row.name not in VALUES:
        return None
    text = VALUES[row.name].format(file.text(node.value))
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
            is_all = getattr(call, "args", ()) == [option]
            return delete_with_branch(file, statement) if is_all else None
        return None
    if isinstance(option.ctx, ast.Load):
        return file.replace(option, f"{config}.{option.attr}")
    statement = file.index.parents.get(option)
    if not isinstance(statement, ast.Assign) or statement.targets != [option]:
        return None
    if option.attr in _OF_COLAB:
        return delete_with_branch(file, statement)
    value = file.text(statement.value)
    return file.replace(statement, f"{config}.update({option.attr!r}, {value})")


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
    is_index = file.name(name) == "jax.ops.index"
    return is_index and _rewritten(file, call, file.called(call) or "") is not None


def _axis_frame(file: File, call: ast.Call) -> SuccessorCall | None:
    """The size of an axis; or, as a statement, the question whether the axis is bound.

    Up to JAX 0.4.35 it returned a frame, from 0.4.36 on the size: other uses are ambiguous.
    `axis_index` raises NameError for an axis that is not bound, as it did.
    """
    parent = file.index.parents.get(call)
    if isinstance(parent, ast.Expr):
        return SuccessorCall((), "jax.lax.axis_index")
    return _of_result(file, call, "size", "jax.lax.axis_size")


def _of_result(file: File, call: ast.Call, attribute: str, successor: str) -> SuccessorCall | None:
    """A call of a function that returns what was an attribute of the result."""
    parent = file.index.parents.get(call)
    if not isinstance(parent, ast.Attribute) or parent.attr != attribute:
        return None
    rest = Edit(file.stretch(*end(call), *end(parent)), "")
    return SuccessorCall((rest,), successor)


def _same(file: File, call: ast.Call, value: ast.expr) -> SuccessorCall:
    """One of the arguments, for a function that returns it."""
    text, statement = file.text(value), file.index.parents.get(call)
    if isinstance(statement, ast.Assign) and [*map(file.text, statement.targets)] == [text]:
        return SuccessorCall((delete(file, statement),))  # `x = x`
    return SuccessorCall((file.replace(call, text),))


def _unzipped(file: File, call: ast.Call, empty: str) -> SuccessorCall | None:
    """The columns of rows, as tuples; what they are if there are no rows."""
    if any("zip" in scope.names for scope in file.index.opens.values()):
        return None
    text = f"tuple(zip(*{file.text(call.args[0])})) or ({empty.rstrip(', ')})"
    is_all = isinstance(file.index.parents[call], (ast.Assign, ast.Return))
    return SuccessorCall((file.replace(call, text if is_all else f"({text})"),))


def _update(file: File, call: ast.Call, method: str) -> SuccessorCall | None:
    """`x.at[i].set(y)` for `index_update(x, i, y)`."""
    array, index, value = call.args
    made = file.only(array)
    if not isinstance(array, _ATOMS) or (
        isinstance(made, Result) and made.path.startswith("numpy.")  # it has no `.at`
    ):
        return None
    if isinstance(index, ast.Subscript) and file.name(index.value) == "jax.ops.index":
        index = index.slice
    options = "".join(f", {file.text(keyword)}" for keyword in call.keywords)
    text = f"{file.text(array)}.at[{file.text(index)}].{method}({file.text(value)}{options})"
    if "#" in text:
        return None  # a comment, perhaps
    one_line = re.sub(r"\s*\n\s*", " ", text)
    fits = call.col_offset + len(one_line) <= _WIDE
    return SuccessorCall((file.replace(call, one_line if fits else text),))


_WIDE = 100
# A driver for the TPUs of Colab that JAX no longer has.
_OF_COLAB = ("jax_xla_backend", "jax_backend_target")
_ATOMS = (ast.Name, ast.Attribute, ast.Subscript, ast.Call)
