"""Deleting uses of removed names that have nothing left to do: imports, calls, functions."""

import ast
import re
from collections.abc import Iterable

from shardlift.check.successor_calls import call_statement
from shardlift.source import statements
from shardlift.source.file import File
from shardlift.source.imports import drop_names, uses_of
from shardlift.source.model import Edit
from shardlift.source.reaching import reaching_bindings
from shardlift.source.removed_names import Removed


def imports_jax(file: File, besides: ast.Import) -> bool:
    """Whether another statement is `import jax`."""
    others = (other for other in file.index.nodes(ast.Import) if other is not besides)
    return any(a.name == "jax" and not a.asname for other in others for a in other.names)


def delete_import(
    file: File, statement: ast.Import | ast.ImportFrom, alias: ast.alias, row: Removed
) -> tuple[Edit, ...]:
    """Delete an import, and the calls of its name, if it is used for nothing else."""
    binds_jax = isinstance(statement, ast.Import) and not alias.asname
    uses: Iterable[ast.AST] = (
        (node for node in file.index.nodes(ast.Attribute) if file.name(node) == row.name)
        if binds_jax
        else uses_of(file, alias)
    )
    calls = [call_statement(file, use) for use in uses]
    if None in calls:
        return ()
    if isinstance(statement, ast.Import) and binds_jax and not imports_jax(file, statement):
        return (file.replace(alias, "jax"),)
    around = file.index.parents[statement]
    if (
        len(statement.names) == 1
        and isinstance(around, ast.Try)
        and statements.is_alone(file, around)
    ):
        rest = {*around.body, *around.orelse, *around.finalbody} - {statement, *calls}
        said = {file.called(one.value) if isinstance(one, ast.Expr) else one for one in rest}
        if said <= {"builtins.print"} and {*calls} <= {*around.body}:
            return (_delete_try(file, around),)
    edits = drop_names(file, statement, [alias])
    if len(statement.names) == 1 and statements.is_only_statement(file, statement, calls):
        if guard := statements.branch_around(file, statement):
            return (statements.delete_with_gap(file, guard),)
        edits = (file.replace(statement, "pass"),)
    if binds_jax:  # the calls are matches of their own
        return edits
    return (*edits, *(statements.delete_with_branch(file, call) for call in calls if call))


def delete_call(file: File, statement: ast.stmt, row: Removed) -> Edit:
    """Delete a call of a module whose import beside it is deleted, too."""
    around = file.index.parents[statement]
    if isinstance(around, ast.Try) and statements.is_alone(file, around):  # else it is guarded
        return _delete_try(file, around)
    imports = {s for s in file.index.nodes(ast.Import) if any(a.name == row.name for a in s.names)}
    return statements.delete_with_branch(file, statement, imports)


def _delete_try(file: File, around: ast.Try) -> Edit:
    is_only = statements.is_only_statement(file, around)
    return file.replace(around, "pass") if is_only else statements.delete_with_gap(file, around)


def delete_function(file: File, statement: ast.stmt) -> tuple[Edit, ...]:
    """Delete a function that has nothing but this statement, and its calls; none if it may not go.

    Every mention of its name in the project has to be a statement that calls it.
    """
    function = file.index.parents[statement]
    if not isinstance(function, ast.FunctionDef) or function.body != [statement]:
        return ()
    is_plain = not function.decorator_list and statements.is_alone(file, function)
    if not is_plain or not isinstance(file.index.parents[function], ast.Module):
        return ()
    users = list(file.project.paths_with(function.name))
    uses = file.index.names.get(function.name, [])
    mentions = re.findall(rf"\b{function.name}\b", file.source.text)
    if not uses or users != [file.path] or len(mentions) != 1 + len(uses):
        return ()
    calls: list[ast.stmt] = []
    for use in uses:
        call = call_statement(file, use)
        if call is None or reaching_bindings(file.index, use) != [function]:
            return ()
        calls.append(call)
    of_calls = (statements.delete_with_branch(file, call, calls) for call in calls)
    return (statements.delete_with_gap(file, function), *of_calls)
