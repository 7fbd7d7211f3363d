"""`jax.shard_map` is called with a keyword of pmap, or of the experimental shard_map.

Specs replace axes, and the mesh replaces names and devices. Donation and static arguments belong to
the `jax.jit` around it. `check_rep` is now `check_vma`, and `axis_names` replaces `auto` and lists
the opposite set of axes. Each of the old keywords raises a TypeError.
"""

import ast
from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.guarded import is_guarded
from shardlift.source.model import GUIDE, Match, Rule
from shardlift.source.shard_maps import NEW, OLD

_INSTEAD = {
    "in_axes": "use in_specs with P(...)",
    "out_axes": "use out_specs with P(...)",
    "axis_name": "the mesh has the axis names",
    "axis_size": "the mesh has the axis sizes",
    "devices": "the mesh has the devices",
    "backend": "the mesh has the devices",
    "donate_argnums": "pass it to the jax.jit around it",
    "static_broadcasted_argnums": "pass static_argnums to the jax.jit around it",
    "check_rep": "use check_vma",
    "auto": "use axis_names, which lists the manual axes",
}


def visit(file: File) -> Iterator[Match]:
    """Every such keyword of `jax.shard_map` or of a partial of it."""
    for shard_map in file.shard_maps:
        call = shard_map.node
        if shard_map.name != NEW or is_guarded(file, call, NEW, OLD):
            continue
        for keyword in call.keywords if isinstance(call, ast.Call) else ():
            if keyword.arg in _INSTEAD:
                text = f"jax.shard_map has no {keyword.arg}: {_INSTEAD[keyword.arg]}"
                edit = file.replace(keyword, f"check_vma={file.text(keyword.value)}")
                yield Match(keyword, text, (edit,) if keyword.arg == "check_rep" else ())


_HEAD = "import jax\nfrom functools import partial\n"

RULE = Rule(
    code="SL711",
    summary="a keyword that jax.shard_map does not have",
    advice="Use jax.jit(jax.shard_map(f, mesh=, in_specs=, out_specs=), donate_argnums=).",
    reference=f"{GUIDE}#rewriting-pmap-to-jit-shard-map",
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
        _HEAD + "g = jax.pmap(f, in_axes=0, donate_argnums=0)",
        "from mylib import shard_map\ng = shard_map(f, in_axes=0)",
    ),
)
