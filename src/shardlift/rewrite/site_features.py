"""What a pmap site needs of `spmd_map`, as far as the source says it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from shardlift.rewrite.options import Options
from shardlift.rewrite.scripts import MANY, runs_once
from shardlift.rewrite.spmd_map import Feature, features_of
from shardlift.source.file import File
from shardlift.source.project import Project
from shardlift.source.scopes import FUNCTIONS
from shardlift.source.values import Known, Mapped


def features_of_site(options: Options) -> frozenset[Feature]:
    """What the options of a site need; a name stands for what is assigned to it."""
    keywords = {name: options.file.definition(node) for name, node in options.keywords.items()}
    return features_of(replace(options, keywords=keywords))


def trains(options: Options, node: ast.AST) -> bool:
    """Whether a site is that of a training step, by what it donates or by its name."""
    mapped = options.operand or options.file.index.parents[node]
    name = getattr(mapped, "name", None) or options.file.text(mapped)
    return "donate_argnums" in options.keywords or "train" in name


def is_lowered(project: Project) -> bool:
    """Whether any file may call the method `lower` of a mapped function."""
    if is_lowered not in project.memo:
        fresh = project.fresh()
        sites = [site for file in fresh.files_with("pmap") for site in file.sites]
        names = {target.rpartition(".")[2] for site in sites for target in site.targets}
        project.memo[is_lowered] = any(
            _is_mapped(file, call.func.value, names)
            for file in fresh.files_with("lower")
            for call in file.index.nodes(ast.Call)
            if isinstance(call.func, ast.Attribute) and call.func.attr == "lower"
        )
    found: bool = project.memo[is_lowered]
    return found


def _is_mapped(file: File, node: ast.expr, names: set[str]) -> bool:
    """Whether an expression is a mapped function, or has the name of one."""
    if getattr(node, "attr", getattr(node, "id", None)) in names:
        return True
    return any(isinstance(value, Mapped) for value in file.values(node))


def is_mapped_again(file: File, site: ast.AST, operand: ast.expr | None) -> bool:
    """Whether the same function object may be mapped at a site more than once.

    A lambda, a partial, or a function that a decorator maps is a new one each time.
    """
    if operand is None or isinstance(operand, ast.Lambda) or _is_partial(file, operand):
        return False
    repeated = next(_repeated(file, site), None)
    if repeated is None or runs_once(file, site, is_called=True):
        return False
    value = file.only(operand) if isinstance(operand, ast.Name) else None
    if not isinstance(value, Known) or value.file is not file:
        return True
    # A function that is defined beside the site is mapped as often as it is defined.
    return next(_repeated(file, value.node), None) is not repeated or _is_mapped_twice(file, value)


def _is_partial(file: File, operand: ast.expr) -> bool:
    return isinstance(operand, ast.Call) and file.called(operand) == "functools.partial"


def _repeated(file: File, node: ast.AST) -> Iterator[ast.AST]:
    """The functions and loops around a node, from the inside."""
    return (one for one in file.index.ancestors(node) if isinstance(one, (*FUNCTIONS, *MANY)))


def _is_mapped_twice(file: File, function: Known) -> bool:
    """Whether two sites map a function, or may: others can have its name in their own scope."""
    operands = [
        m.node.args[0] for m in file.mentions if isinstance(m.node, ast.Call) and m.node.args
    ]
    name = getattr(function.node, "name", None)
    named = [n for n in operands if isinstance(n, ast.Name) and n.id == name]
    others = [value for value in map(file.only, named) if isinstance(value, Known)]
    return len(named) - sum(other.node is not function.node for other in others) > 1
