"""`jax.shard_map` is given a keyword of pmap, or of the experimental shard_map.

Specs took the place of axes, the mesh took that of names and devices, and donation and static
arguments belong to the `jax.jit` around it. `check_rep` is `check_vma`, and `auto` has given way to
`axis_names`, which names the opposite set. Each of the old words is a TypeError.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.guarded import is_guarded
from shardlift.source.model import GUIDE, Edit, Effect, Match, Rule
from shardlift.source.shard_maps import NEW, OLD

_INSTEAD = {
    "in_axes": "it is in_specs, with P(...)",
    "out_axes": "it is out_specs, with P(...)",
    "axis_name": "the mesh names its axes",
    "axis_size": "the mesh has its sizes",
    "devices": "the mesh holds the devices",
    "backend": "the mesh holds the devices",
    "donate_argnums": "it goes on the jax.jit around it",
    "static_broadcasted_argnums": "static_argnums goes on the jax.jit around it",
    "check_rep": "it is check_vma",
    "auto": "axis_names lists the manual axes instead",
}


def visit(file: File) -> Iterator[Match]:
    """Every such keyword of `jax.shard_map`, or of a partial of it."""
    for shard_map in file.shard_maps:
        if shard_map.name != NEW or is_guarded(file, shard_map.node, NEW, OLD):
            continue
        for keyword in shard_map.node.keywords:
            if keyword.arg in _INSTEAD:
                text = f"jax.shard_map has no {keyword.arg}: {_INSTEAD[keyword.arg]}"
                edits: tuple[Edit, ...] = ()
                if keyword.arg == "check_rep":
                    renamed = f"check_vma={file.text(keyword.value)}"
                    edits = (file.replace(keyword, renamed),)
                yield Match(keyword, text, edits)


_HEAD = "import jax\nfrom functools import partial\n"

RULE = Rule(
    code="SL711",
    name="unknown-shard-map-keyword",
    effect=Effect.BROKEN,
    summary="a keyword that jax.shard_map does not have",
    advice="jax.jit(jax.shard_map(f, mesh=, in_specs=, out_specs=), donate_argnums=).",
    explain=__doc__,
    reference=f"{GUIDE}#rewriting-pmap-to-jit-shard-map",
    visit=visit,
    names=("jax.shard_map", "jax.experimental.shard_map"),
    bad=(
        _HEAD + "g = jax.shard_map(f, mesh=m, in_specs=s, out_specs=s, donate_argnums=0)  # SL711",
        _HEAD + "@partial(jax.shard_map, mesh=m, in_axes=0, out_specs=s)  # SL711\n"
        "def f(x):\n    return x",
        _HEAD + "g = jax.shard_map(f, mesh=m, in_specs=s, out_specs=s, check_rep=False)  # SL711",
    ),
    good=(
        _HEAD + "g = jax.jit(jax.shard_map(f, mesh=m, in_specs=s, out_specs=s), donate_argnums=0)",
        _HEAD + "g = jax.shard_map(f, mesh=m, in_specs=s, out_specs=s, axis_names={'i'})",
        _HEAD + "g = jax.smap(f, in_axes=0, out_axes=0, axis_name='i')",
        _HEAD + "g = jax.pmap(f, in_axes=0, donate_argnums=0)",
        "from mylib import shard_map\ng = shard_map(f, in_axes=0)",
    ),
)
