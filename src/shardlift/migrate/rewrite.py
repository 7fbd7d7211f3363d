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


class Kind(StrEnum):
    """What a change does."""

    SITE = "site"  # a function is mapped here
    VALUE = "value"  # pmap itself is handed on: the functions are mapped elsewhere
    PLACEMENT = "placement"  # values are placed on devices, or read from them by flax
    READ = "read"  # the first row of an output is read
    REMOVED_NAME = "removed name"  # a name that JAX no longer has
    DEVICE_AXIS = "device axis"  # it follows from the sites whose arrays lose the device axis


@dataclass(frozen=True)
class Rewrite:
    """One place, rewritten.

    `imports` are whole statements that the new text needs (`import jax`,
    `from jax.sharding import PartitionSpec as P`); `helpers` are names from the catalogue of
    helpers that a migration emits once a package.
    """

    node: ast.AST
    kind: Kind
    edits: tuple[Edit, ...]
    imports: frozenset[str] = frozenset()
    helpers: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Refusal:
    """One place, left as it was, and why."""

    node: ast.AST
    kind: Kind
    reason: str


# One step of a migration: what it would do to a file.
Step = Callable[["File", Goal], Iterator[Rewrite | Refusal]]
