"""`--to shim`: jax.pmap becomes shardlift.pmap, and nothing else changes."""

from __future__ import annotations

from collections.abc import Iterator

from shardlift.codemod.file import File
from shardlift.codemod.migration.references import OWN, references
from shardlift.codemod.migration.rewrite import Goal, Refusal, Rewrite


def rewrite(file: File, goal: Goal) -> Iterator[Rewrite | Refusal]:
    """Every mention of pmap."""
    if goal is not Goal.SHIM:
        return
    for reference, path in references(file):
        if path in OWN:
            edit = file.replace(reference, "shardlift.pmap")
            yield Rewrite(reference, (edit,), frozenset({"import shardlift"}))
        else:
            yield Refusal(reference, f"{path} is not jax.pmap")
