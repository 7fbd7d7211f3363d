"""Where pmap is used: one rule for each role that it can have at a place."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from shardlift.source.file import File
from shardlift.source.model import GUIDE, Kind, Level, Match, Rule
from shardlift.source.sites import Role, Site, Usage

_KINDS = {"lambda": "a lambda", "partial": "a partial", "call": "the result of a call"}


def _visit(file: File, role: Role, message: Callable[[Site], str]) -> Iterator[Match]:
    for site in file.sites:
        if site.role is role:
            yield Match(site.node, message(site))
    for one in file.unfollowed if role is Role.MAP else ():
        yield Match(one.call, f"a function is mapped by {one.name}, which cannot be followed")


def _mapped(site: Site) -> str:
    parts = f"{_function(site)} is pmapped"
    if site.transform.chain:
        parts += f" through {site.transform.chain[0]}()"
    elif site.transform.origin != "jax.pmap":
        parts += f" by {site.transform.origin}"
    return f"{parts}, or passed to {site.otherwise[0]}" if site.otherwise else parts


def _function(site: Site) -> str:
    if site.usage is Usage.DECORATOR:
        return f"`{site.targets[0]}`"
    if isinstance(site.operand, ast.expr) and site.operand_kind not in _KINDS:
        return f"`{site.file.brief(site.operand)}`"
    return _KINDS.get(site.operand_kind, "a function")


def _wrapped(site: Site) -> str:
    origin = site.transform.origin
    if site.mapped is None and site.targets:
        return f"`{site.targets[0]}` is another name for {origin}"
    function = site.scope.rpartition(".")[2]
    return f"`{function}()` wraps {origin}" if function else f"a wrapper of {origin}"


def _passed(site: Site) -> str:
    return f"{site.transform.origin} is passed as a value"


def _rule(role: Role, message: Callable[[Site], str], *kinds: Kind, **rest: Any) -> Rule:
    return Rule(
        level=Level.NOTE,
        reference=f"{GUIDE}#migrating-to-jax-shard-map",
        words=("pmap", "Parallel"),
        visit=partial(_visit, role=role, message=message),
        rewritten_as=frozenset(kinds),
        **rest,
    )


RULES = (
    _rule(
        Role.MAP,
        _mapped,
        *(Kind.SITE, Kind.VALUE),
        code="SL201",
        summary="a function is pmapped here",
        advice="Nothing, as long as it works. Leaving pmap: jax.jit(jax.shard_map(...)).",
    ),
    _rule(
        Role.WRAPPER,
        _wrapped,
        *(Kind.SITE, Kind.VALUE),
        code="SL202",
        summary="pmap gets another name",
        advice="Start here: functions that are mapped by this name change with it.",
    ),
    _rule(
        Role.REFERENCE,
        _passed,
        Kind.VALUE,
        code="SL203",
        summary="pmap is passed as a value",
        advice="Check the receiver: the functions that it maps are not reported.",
    ),
)
