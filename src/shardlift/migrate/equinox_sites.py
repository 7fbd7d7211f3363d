"""`equinox.filter_pmap`: its name becomes that of the helper `filter_spmd_map`.

The helper does what `filter_pmap` does by default: every array is split along its first axis.
A site that gives other axes, or donates, stays as it is.
"""

from __future__ import annotations

import ast

from shardlift.migrate.names import is_shadowed
from shardlift.source.file import File
from shardlift.source.mentions import Mention, Use, is_decorator
from shardlift.source.model import HelperRequest, Kind, Match
from shardlift.source.values import Known

PATH = "equinox.filter_pmap"
NAME = "filter_spmd_map"


def rewrite_mention(file: File, mention: Mention) -> Match:
    """A mention of `equinox.filter_pmap`, rewritten or refused."""
    reason = _why_not(file, mention)
    if reason:
        return Match(mention.node, f"{PATH} {reason}", kind=Kind.SITE)
    edits = (file.replace(mention.name, NAME),)
    helpers = frozenset({HelperRequest(NAME)})
    return Match(mention.node, "", edits, helpers=helpers, kind=Kind.SITE)


def _why_not(file: File, mention: Mention) -> str:
    if mention.use not in (Use.CALL, Use.DECORATOR):
        return "is passed on as a value: look at what it maps"
    if file.many_processes:
        return "in a program of many processes: use eqx.filter_jit with eqx.filter_shard"
    if is_shadowed(file, mention.name, NAME):
        return f"cannot be replaced: the name `{NAME}` means something else here"
    node = mention.node
    if isinstance(node, ast.Call):
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        if set(given) - {"axis_name"}:
            return "has options other than axis_name: use eqx.filter_jit with eqx.filter_shard"
        name = given.get("axis_name")
        if isinstance(name, ast.Constant) and name.value is None:
            return "has no axis name: leave out `axis_name=None`"
        if mention.use is Use.CALL and not _maps_function(file, node):
            return "maps something that is not known to be a function: look at it"
    return ""


def _maps_function(file: File, call: ast.Call) -> bool:
    """Whether a function is mapped: a module has arrays of its own, which are split, too."""
    if not call.args:
        return is_decorator(file, call)
    if len(call.args) > 1 or isinstance(call.args[0], ast.Starred):
        return False
    value = file.only(call.args[0])
    functions = (ast.Lambda, ast.FunctionDef)
    return isinstance(call.args[0], ast.Lambda) or (
        isinstance(value, Known) and isinstance(value.node, functions)
    )
