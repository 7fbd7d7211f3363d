"""Whether a file is written for a job of several processes."""

from __future__ import annotations

import ast
import re

from shardlift.source.file import File

_NAMES = frozenset({"process_index", "process_count", "host_id", "host_count"})
_SIGNS = re.compile(rf"{'|'.join(sorted(_NAMES))}|distributed")
# Functions that `migrate` writes: they use these names in programs of one process too.
WRITTEN_BY_MIGRATE = frozenset(
    {
        "device_mesh",
        "global_rows",
        "host_local",
        "host_local_arrays",
        "mesh_of_devices",
        "only_mine",
        "shard_map_per_device",
    }
)


def may_be_for_many(text: str) -> bool:
    """Whether a text is worth parsing to find out."""
    return "jax" in text and _SIGNS.search(text) is not None


def is_for_many(file: File) -> bool:
    """Whether a file asks for the process index or count, or calls `jax.distributed`."""
    calls = (call for call in file.index.nodes(ast.Call) if _asks(file.called(call) or ""))
    return any(not _is_in_helper(file, call) for call in calls)


def _asks(name: str) -> bool:
    module, _, last = name.rpartition(".")
    if module == "jax.distributed":
        return last == "initialize"
    return last in _NAMES and module in ("jax", "jax.lib.xla_bridge")


def _is_in_helper(file: File, call: ast.Call) -> bool:
    return any(
        isinstance(node, ast.FunctionDef) and node.name in WRITTEN_BY_MIGRATE
        for node in file.index.ancestors(call)
    )
