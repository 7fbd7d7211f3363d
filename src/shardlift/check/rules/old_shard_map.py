"""`jax.experimental.shard_map.shard_map` is now `jax.shard_map`, with other keywords.

The old name is deprecated since JAX 0.8. In the new function `check_rep` is `check_vma`, mesh and
specs are keyword-only, and `axis_names` replaces `auto` and lists the opposite set of axes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.guarded import is_guarded
from shardlift.source.model import SHARD_MAP, Level, Match, Rule
from shardlift.source.shard_maps import NAMES, NEW, OLD


def visit(file: File) -> Iterator[Match]:
    """Imports of the old name, and uses of its full name."""
    imports = file.index.nodes(ast.ImportFrom)
    attributes = (n for n in file.index.nodes(ast.Attribute) if n.attr == "shard_map")
    uses = [n for n in imports if n.module == "jax.experimental.shard_map"]
    for node in (*uses, *(n for n in attributes if file.name(n) == OLD)):
        if not is_guarded(file, node, OLD, NEW):
            yield Match(node, "jax.experimental.shard_map is deprecated: use jax.shard_map")


RULE = Rule(
    code="SL111",
    level=Level.NOTE,
    summary="the experimental shard_map, deprecated since JAX 0.8",
    advice="Use jax.shard_map with mesh=, in_specs=, out_specs=, check_vma=.",
    reference=SHARD_MAP,
    names=NAMES,
    since=(0, 8),
)
