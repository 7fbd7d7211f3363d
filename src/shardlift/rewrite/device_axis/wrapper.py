"""The lambda around a mapped function: for static arguments, and for rows of a shared function.

`jax.shard_map` takes no static arguments: the lambda that is jitted has them, and the function that
is mapped reads them from there. A function that others call as well cannot take blocks of one row
itself: a lambda takes the rows for it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shardlift.rewrite.call_format import Argument, CallText
from shardlift.rewrite.device_axis.array_text import numpy_name
from shardlift.rewrite.device_axis.followed_program import FollowedProgram
from shardlift.rewrite.device_axis.global_sites import GlobalSite
from shardlift.rewrite.device_axis.solve import AxisLayout, Decision
from shardlift.rewrite.names import jax_name
from shardlift.source.file import File
from shardlift.source.scopes import positional


@dataclass(frozen=True)
class Wrapper:
    """The parameters of a mapped function, and the call of it in the lambda that is mapped."""

    names: tuple[str, ...]
    body: str
    static: tuple[int, ...]

    @property
    def mapped(self) -> str:
        """The lambda that takes the arrays."""
        return f"lambda {', '.join(self._arrays)}: {self.body}"

    def call(self, jax: str, inner: Sequence[Argument], outer: Sequence[Argument]) -> CallText:
        """`jax.jit(jax.shard_map(lambda …))`, with another lambda if there are static arguments."""
        mapping = f"{jax}.shard_map"
        if not self.static:
            return CallText(f"{jax}.jit", (CallText(mapping, (self.mapped, *inner)), *outer))
        opening = f"lambda {', '.join(self.names)}: {mapping}"
        given = f"({', '.join(self._arrays)})"
        jitted = CallText(opening, (self.mapped, *inner), given)
        return CallText(f"{jax}.jit", (jitted, f"static_argnums={self.static}", *outer))

    @property
    def _arrays(self) -> list[str]:
        return [name for k, name in enumerate(self.names) if k not in self.static]


def filled(site: GlobalSite) -> int:
    """How many positional parameters a `functools.partial` has filled."""
    operand = site.options.operand
    if isinstance(operand, ast.Call) and site.file.called(operand) == "functools.partial":
        return len(operand.args) - 1
    return 0


def wrap(
    program: FollowedProgram,
    site: GlobalSite,
    decision: Decision,
    take: Callable[[int, str], str] | None,
) -> Wrapper | None:
    """The wrapper of a site; None if it cannot have one.

    `take` gives the row of an argument, if the function does not take it itself.
    """
    operand, function = site.options.operand, site.function
    if not isinstance(operand, ast.Name) or function is None or not _is_fixed(program, site):
        return None
    names = positional(function.node)[: site.arguments]  # type: ignore[arg-type]
    if len(names) != site.arguments or set(names) & _names_around(site):
        return None
    given = [_given(decision, site, k, name, take) for k, name in enumerate(names)]
    body: str | None = f"{operand.id}({', '.join(given)})"
    if take is not None:
        body = _with_rows(site, decision, body or "")
    return Wrapper(tuple(names), body, site.static) if body is not None else None


def _is_fixed(program: FollowedProgram, site: GlobalSite) -> bool:
    """Whether the name of the function always means it: the lambda looks it up at each call."""
    operand, index = site.options.operand, site.file.index
    assert isinstance(operand, ast.Name)
    scope = index.binding_scope(operand)[0]
    bound = index.module.names.get(operand.id, [])
    if scope is not index.module or len(bound) != 1:
        return False
    statement = index.parents[bound[0]] if isinstance(bound[0], ast.alias) else bound[0]
    changed = any(
        node.attr == operand.id and not isinstance(node.ctx, ast.Load)
        for file in program.files
        for node in file.index.nodes(ast.Attribute)
    )
    shared = program.shared_names(site.file, index.module)
    return statement in index.root.body and operand.id not in shared and not changed


def _names_around(site: GlobalSite) -> set[str]:
    """The names that the text inside the lambdas needs, besides the parameters."""
    jax = jax_name(site.file)[0]
    axis = site.options.keywords.get("axis_name")
    nodes = [node for one in (axis, site.options.operand) if one for node in ast.walk(one)]
    named = {node.id for node in nodes if isinstance(node, ast.Name)}
    return {jax, numpy_name(site.file, jax).partition(".")[0], *named}


def _given(
    decision: Decision,
    site: GlobalSite,
    number: int,
    name: str,
    take: Callable[[int, str], str] | None,
) -> str:
    is_row = decision.argument(site, number) is AxisLayout.STACKED
    return take(number, name) if take is not None and is_row else name


def _with_rows(site: GlobalSite, decision: Decision, body: str) -> str | None:
    """The call with an axis for what it returns, if all or nothing of it stays one per device."""
    layouts = set(decision.outputs(site))
    if AxisLayout.STACKED not in layouts:
        return body
    if layouts != {AxisLayout.STACKED}:
        return None
    return with_row(site.file, body, site.is_array(()))


def with_row(file: File, text: str, is_leaf: bool) -> str:
    """The text of a value with an axis of one row."""
    jax = jax_name(file)[0]
    numpy = numpy_name(file, jax)
    if is_leaf:
        return f"{numpy}.expand_dims({text}, 0)"
    return f"{jax}.tree.map(lambda x: {numpy}.expand_dims(x, 0), {text})"
