"""What a migration does to one place of a file: the words that its steps share."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from shardlift.source.model import Edit

if TYPE_CHECKING:
    from shardlift.source.file import File


class Goal(StrEnum):
    """What `--to` names."""

    SHARD_MAP = "shard_map"  # plain jax.jit(jax.shard_map(...)), shapes as they were
    GLOBAL = "global"  # and no device axis where every array has been followed
    SHIM = "shim"  # jax.pmap becomes shardlift.pmap, and nothing else changes


@dataclass(frozen=True)
class Rewrite:
    """One place, rewritten.

    `imports` are whole statements that the new text needs (`import jax`,
    `from jax.sharding import PartitionSpec as P`); `helpers` are names from the catalogue of
    helpers that a migration emits once a package.
    """

    node: ast.AST
    edits: tuple[Edit, ...]
    imports: frozenset[str] = frozenset()
    helpers: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Refusal:
    """One place, left as it was, and why."""

    node: ast.AST
    reason: str


# One step of a migration: what it would do to a file.
Step = Callable[["File", Goal], Iterator[Rewrite | Refusal]]
