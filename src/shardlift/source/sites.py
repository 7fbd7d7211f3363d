"""pmap sites: every place where a function is pmapped, with what rules and rewrites need."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from shardlift.source.libraries import PMAPS
from shardlift.source.mentions import Use
from shardlift.source.scopes import DEFINITIONS, FUNCTIONS
from shardlift.source.values import Argument, External, Known, Located, Mapped, Transform, Value
from shardlift.source.wrappers import as_transform

if TYPE_CHECKING:
    from shardlift.source.file import File


_PARTIAL = External("functools.partial")


class Role(StrEnum):
    """What happens at a site."""

    MAP = "map"  # a function is pmapped
    WRAPPER = "wrapper"  # pmap gets another name: an alias, a partial, a function around it
    REFERENCE = "reference"  # pmap itself is passed as a value


class Usage(StrEnum):
    """How pmap is applied."""

    DECORATOR = "decorator"
    CALL = "call"
    IMMEDIATE = "immediate"  # pmap(f)(x)


@dataclass(frozen=True, eq=False)
class Site:
    """One place in the source."""

    file: File = field(repr=False)
    node: ast.AST  # the call, the decorator, or the name
    role: Role
    transform: Transform
    usage: Usage = Usage.CALL
    operand: ast.expr | Known | None = None
    keywords: Mapping[str, Located] = field(default_factory=dict)
    targets: tuple[str, ...] = ()  # the names that it is assigned to: `p_step`, `self.step`
    otherwise: tuple[str, ...] = ()  # other functions that may be used instead: `jax.jit`
    mapped: Mapped | None = None

    @property
    def function(self) -> Known | None:
        """The def or lambda that is pmapped, if it is known."""
        return mapped_function(self.mapped) if self.mapped else None

    @property
    def operand_kind(self) -> str:
        """The kind of operand: `def`, `lambda`, `name`, `method`, `partial`, `call` or `other`."""
        operand = self.operand
        if operand is None or isinstance(operand, Known):
            return "def"
        if isinstance(operand, ast.Call):
            is_partial = self.file.called(operand) == "functools.partial"
            return "partial" if is_partial else "call"
        kinds = {ast.Lambda: "lambda", ast.Name: "name", ast.Attribute: "method"}
        return kinds.get(type(operand), "other")


def find_sites(file: File) -> list[Site]:
    """Every site of a file, in source order."""
    sites = [*_calls(file), *_decorators(file), *_wrappers(file)]
    inside = {node for site in sites for node in ast.walk(site.node)}
    sites += [
        Site(file, mention.name, Role.REFERENCE, Transform(mention.path))
        for mention in file.mentions
        if mention.use is not Use.COMPARED and mention.name not in inside
    ]
    return sorted(sites, key=lambda site: file.span(site.node))


def mapped_function(mapped: Mapped) -> Known | None:
    """The def or lambda that is mapped, through names, methods and partials."""
    operand = mapped.operand
    if operand is None or isinstance(operand, Known):
        return operand
    return function_of(operand.file, operand.node)


def function_of(file: File, node: ast.expr) -> Known | None:
    """The def or lambda that an expression refers to, if there is only one; through partials."""
    if isinstance(node, ast.Call) and node.args and file.called(node) == "functools.partial":
        return function_of(file, node.args[0])
    value = file.only(node)
    if isinstance(value, Known) and isinstance(value.node, FUNCTIONS):
        return value
    return None


def pmap_keywords(file: File, *names: str) -> Iterator[tuple[str, ast.expr]]:
    """Keywords of jax.pmap that are written in a file: at the site, or in a wrapper of it."""
    for site in file.sites:
        if site.role is not Role.REFERENCE and site.transform.origin == "jax.pmap":
            for name in names:
                located = site.keywords.get(name)
                if located is not None and located.file is file:
                    yield name, located.node


def surely_mapped(file: File, node: ast.expr) -> Mapped | None:
    """The pmapped function that an expression refers to, if it cannot be anything else."""
    value = file.only(node)
    return value if isinstance(value, Mapped) and value.transform.certain else None


def _calls(file: File) -> Iterator[Site]:
    for call in file.index.nodes(ast.Call):
        functions = file.values(call.func)
        if not any(map(_may_map, functions)):
            continue
        values = (v for v in file.values(call) if isinstance(v, Mapped) and v.node is call)
        mapped = next(values, None)
        if mapped is None:
            continue
        operand = mapped.operand
        parent = file.index.parents.get(call)
        immediate = isinstance(parent, ast.Call) and parent.func is call
        yield Site(
            file=file,
            node=call,
            role=Role.WRAPPER if _is_wrapper_body(file, mapped) else Role.MAP,
            transform=mapped.transform,
            usage=Usage.IMMEDIATE if immediate else Usage.CALL,
            operand=operand.node if isinstance(operand, Located) else operand,
            keywords=mapped.keywords,
            targets=() if immediate else _targets(file, call),
            otherwise=() if _PARTIAL in functions else _other_functions(functions),
            mapped=mapped,
        )


def _may_map(value: Value) -> bool:
    """Whether calling a value may map a function."""
    if isinstance(value, External):
        return value.path in PMAPS or value.path == _PARTIAL.path
    return as_transform(value) is not None


def _other_functions(values: Iterable[Value]) -> tuple[str, ...]:
    return tuple(v.path for v in values if isinstance(v, External) and v.path not in PMAPS)


def _is_wrapper_body(file: File, mapped: Mapped) -> bool:
    """Whether a pmap call is part of a function that wraps pmap."""
    if not isinstance(mapped.operand, Located):
        return False
    for value in file.values(mapped.operand.node):
        if isinstance(value, Argument) and isinstance(value.function, ast.FunctionDef):
            return as_transform(Known(value.function, file)) is not None
    return False


def _decorators(file: File) -> Iterator[Site]:
    for function in file.index.nodes(ast.FunctionDef):
        known = Known(function, file)
        for decorator in function.decorator_list:
            transform = next(filter(None, map(as_transform, file.values(decorator))), None)
            if transform is None:
                continue
            mapped = file.only(function)
            if not isinstance(mapped, Mapped) or mapped.node is not decorator:
                mapped = Mapped(transform, known, decorator, file, transform.keywords)
            yield Site(
                file=file,
                node=decorator,
                role=Role.MAP,
                transform=transform,
                usage=Usage.DECORATOR,
                operand=known,
                keywords=transform.keywords,
                targets=(function.name,),
                mapped=mapped,
            )


def _wrappers(file: File) -> Iterator[Site]:
    """The sites of `pmap = jax.pmap`, `pmap = partial(jax.pmap, …)` and their like."""
    statements: list[ast.Assign | ast.AnnAssign | ast.Return] = [
        *file.index.nodes(ast.Assign),
        *file.index.nodes(ast.AnnAssign),
        *file.index.nodes(ast.Return),
    ]
    for statement in statements:
        node = statement.value
        if not isinstance(node, (ast.Call, ast.Attribute, ast.Name, ast.IfExp)):
            continue
        values = file.values(node)
        transforms = (as_transform(value) for value in values if not isinstance(value, Known))
        transform = next(filter(None, transforms), None)
        if transform is not None:
            yield Site(
                file=file,
                node=node,
                role=Role.WRAPPER,
                transform=transform,
                keywords=transform.keywords,
                targets=_targets(file, node),
                otherwise=_other_functions(values),
            )


def _targets(file: File, node: ast.AST) -> tuple[str, ...]:
    """The names that the value of an expression, or of a choice around it, is assigned to."""
    parent = file.index.parents.get(node)
    while isinstance(parent, ast.IfExp) and node is not parent.test:
        node, parent = parent, file.index.parents.get(parent)
    if not isinstance(parent, (ast.Assign, ast.AnnAssign, ast.NamedExpr)):
        return ()
    targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
    return tuple(name for target in targets if (name := _dotted_name(target)))


def _dotted_name(node: ast.AST) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    base = _dotted_name(node.value) if isinstance(node, ast.Attribute) else None
    return f"{base}.{node.attr}" if base and isinstance(node, ast.Attribute) else None


def scope_name(file: File, node: ast.AST) -> str:
    """The dotted name of the functions and classes around a node; empty at module level."""
    around = [n.name for n in file.index.ancestors(node) if isinstance(n, DEFINITIONS)]
    return ".".join(reversed(around))
