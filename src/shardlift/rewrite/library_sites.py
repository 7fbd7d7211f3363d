"""`equinox.filter_pmap` and `flax.nnx.pmap`: each name becomes that of a helper.

The helpers do what these functions do by default: every array is split along its first axis.
A site that gives other axes, or donates, is not changed.
"""

from __future__ import annotations

import ast
from typing import NamedTuple

from shardlift.rewrite.names import is_shadowed
from shardlift.source.file import File
from shardlift.source.mentions import Mention, Use, is_decorator
from shardlift.source.model import HelperRequest, Kind, Match
from shardlift.source.values import Known


class Library(NamedTuple):
    """The pmap of a library: the helper that takes its place, and what to do by hand."""

    helper: str
    advice: str


LIBRARIES = {
    "equinox.filter_pmap": Library("filter_spmd_map", "use eqx.filter_jit with eqx.filter_shard"),
    "flax.nnx.pmap": Library("nnx_spmd_map", "use nnx.jit with nnx.shard_map"),
}


def rewrite_mention(file: File, mention: Mention) -> Match:
    """A mention of a library's pmap, rewritten or refused."""
    library = LIBRARIES[mention.path]
    reason = _why_not(file, mention, library)
    if reason:
        return Match(mention.node, f"{mention.path} {reason}", kind=Kind.SITE)
    edits = (file.replace(mention.name, library.helper),)
    helpers = frozenset({HelperRequest(library.helper)})
    return Match(mention.node, "", edits, helpers=helpers, kind=Kind.SITE)


def _why_not(file: File, mention: Mention, library: Library) -> str:
    if mention.use not in (Use.CALL, Use.DECORATOR):
        return "is passed on as a value: look at what it maps"
    if file.project.graph.has_package(mention.path.partition(".")[0]):
        return "is a part of this project"
    if file.many_processes:
        return f"in a program of many processes: {library.advice}"
    if is_shadowed(file, mention.name, library.helper):
        return f"cannot be replaced: the name `{library.helper}` means something else here"
    node = mention.node
    if isinstance(node, ast.Call):
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        if set(given) - {"axis_name"}:
            return f"has options other than axis_name: {library.advice}"
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
