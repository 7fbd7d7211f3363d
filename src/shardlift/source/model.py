"""What `check` and `migrate` say: spans, edits, findings, and the rule object that makes them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from packaging.version import Version as Release

if TYPE_CHECKING:
    from shardlift.source.file import File

GUIDE = "https://docs.jax.dev/en/latest/migrate_pmap.html"
CHANGELOG = "https://docs.jax.dev/en/latest/changelog.html"
SHARD_MAP = "https://docs.jax.dev/en/latest/notebooks/shard_map.html"
MULTI_PROCESS = "https://docs.jax.dev/en/latest/multi_process.html"

# One file of text, or several by path: rules that look across files need the second form.
Example = str | Mapping[str, str]
Version = tuple[int, ...]


class Effect(StrEnum):
    """What happens when a finding is left as it is."""

    REMOVED = "removed"  # the name is gone: an error as soon as it is reached
    BROKEN = "broken"  # raises, or hangs
    WRONG = "wrong"  # runs, and the numbers are not those that pmap gave
    SLOW = "slow"  # runs, and moves or copies more than it must
    OLD = "old"  # runs; what `migrate` rewrites


class Migrated(StrEnum):
    """What `migrate` does about the findings of a rule."""

    NO = "no"
    BY_EDITS = "by edits"  # it makes the rule's own edits, and lists the matches without any
    BY_STEP = "by step"  # a step of its own rewrites what the rule reports


class Kind(StrEnum):
    """What a change does."""

    SITE = "site"  # a function is mapped here
    VALUE = "value"  # pmap itself is handed on: the functions are mapped elsewhere
    PLACEMENT = "placement"  # values are placed on devices, or read from them by flax
    READ = "read"  # the first row of an output is read
    NAME = "name"  # a name or an option that JAX no longer has
    CHECK_VMA = "check_vma"  # the check of `--strict-vma` at a site
    DEVICE_AXIS = "device axis"  # it follows from the sites whose arrays lose the device axis


@dataclass(frozen=True, order=True)
class Span:
    """A stretch of text: lines from 1, columns in characters from 0, within a cell if any."""

    line: int
    column: int
    end_line: int
    end_column: int
    cell: int | None = None


@dataclass(frozen=True)
class Edit:
    """A stretch of text and what takes its place; the program stays the same by construction."""

    span: Span
    replacement: str


@dataclass(frozen=True)
class Match:
    """What a rule, or a step of `migrate`, has to say about a node.

    `message` is what is wrong there, or why it stays as it is; `edits`, if there are any, change
    it. Edits that need `imports`, whole statements, or `helpers`, functions that `migrate` writes
    once per package, are made by `migrate` only.
    """

    node: ast.AST
    message: str
    edits: tuple[Edit, ...] = ()
    imports: frozenset[str] = frozenset()
    helpers: frozenset[str] = frozenset()
    kind: Kind = Kind.NAME
    skipped: bool = False  # nothing is wrong with it: the program has seen to it itself
    # Nodes besides `node` at which functions are mapped by what the edits change.
    sites: tuple[ast.AST, ...] = ()


@dataclass(frozen=True)
class Finding:
    """A rule at a line."""

    code: str
    path: str
    span: Span
    message: str
    edits: tuple[Edit, ...] = ()


@dataclass(frozen=True)
class Rule:
    """One thing that `check` looks for.

    `explain` is the docstring of the rule's module; `bad` and `good` are executed as tests and
    shown as documentation. In a bad example every reported line ends in a comment with the code.
    """

    code: str
    name: str
    effect: Effect
    summary: str
    advice: str
    explain: str
    reference: str
    visit: Callable[[File], Iterator[Match]]
    bad: tuple[Example, ...]
    good: tuple[Example, ...]
    # A file is parsed, and the rule run, only if it says one of these words or names of JAX.
    words: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    # The first JAX release in which the finding holds.
    since: Version = (0,)
    # The flax that the bad examples are for, if it is not the newest one.
    flax: Version | None = None
    migrated: Migrated = Migrated.NO


def version(text: str) -> Version:
    """Read a version: `0.10.2.dev1` is `(0, 10, 2)`. Raises ValueError for anything else."""
    return Release(text).release
