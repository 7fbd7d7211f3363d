"""Records of `check` and `migrate`: spans, edits, matches, findings and rules."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion
from packaging.version import Version as Release

if TYPE_CHECKING:
    from shardlift.source.file import File

GUIDE = "https://docs.jax.dev/en/latest/migrate_pmap.html"
CHANGELOG = "https://docs.jax.dev/en/latest/changelog.html"
SHARD_MAP = "https://docs.jax.dev/en/latest/_autosummary/jax.shard_map.html"
MULTI_PROCESS = "https://docs.jax.dev/en/latest/multi_process.html"

# The text of one file, or of several by path for rules that need more than one file.
Example = str | Mapping[str, str]
Version = tuple[int, ...]


class Level(StrEnum):
    """How bad a finding is, the worst first."""

    BROKEN = "broken"  # raises an error, hangs, or computes other numbers than pmap did
    SLOW = "slow"  # runs, but moves or copies more data than necessary
    NOTE = "note"  # works: the old way to write it


class Rewriter(StrEnum):
    """Who rewrites a finding: the command after which it is gone."""

    FIX = "fix"
    MIGRATE = "migrate"
    MIGRATE_IF_MOST = "migrate, if most sites of the project leave pmap"  # while files are read
    HAND = "by hand"  # neither: the advice of the rule says what to write


class Kind(StrEnum):
    """What a change does."""

    SITE = "site"  # a function is mapped here
    VALUE = "value"  # pmap itself is passed as a value; functions are mapped elsewhere
    PLACEMENT = "placement"  # values are placed on devices, or read from them by flax
    READ = "read"  # the first row of an output is read
    NAME = "name"  # a name or an option that JAX no longer has
    DEVICE_AXIS = "device axis"  # follows from sites whose arrays lose the device axis


MAPS = frozenset({Kind.SITE, Kind.VALUE})


@dataclass(frozen=True, order=True)
class Span:
    """A part of a text or of a notebook cell. Lines start at 1, columns (characters) at 0."""

    line: int
    column: int
    end_line: int
    end_column: int
    cell: int | None = None

    def overlaps(self, other: Span) -> bool:
        """Whether the two have a character in common."""
        starts = (self.line, self.column), (other.line, other.column)
        ends = (self.end_line, self.end_column), (other.end_line, other.end_column)
        return self.cell == other.cell and starts[0] < ends[1] and starts[1] < ends[0]


@dataclass(frozen=True)
class Edit:
    """A replacement of a part of a text. Edits do not change what a program computes."""

    span: Span
    replacement: str


@dataclass(frozen=True)
class HelperRequest:
    """A function that `migrate` writes once per package, and what a change needs of it."""

    name: str
    needs: frozenset[str] = frozenset()
    axis: str | None = None  # the name of the mesh axis


@dataclass(frozen=True)
class Match:
    """What a rule, or a step of `migrate`, reports for a node.

    `message` says what is wrong, or why it is not changed. `edits` correct it. If they need
    `imports` (statements) or `helpers` (functions that `migrate` writes once per package), only
    `migrate` applies them.
    """

    node: ast.AST
    message: str
    edits: tuple[Edit, ...] = ()
    imports: frozenset[str] = frozenset()
    helpers: frozenset[HelperRequest] = frozenset()
    kind: Kind = Kind.NAME
    name: str = ""  # the removed name that it is about
    successor: str = ""  # the name that is written for it, if it is not the usual one
    skipped: bool = False  # nothing is wrong with it: the program has seen to it itself
    # Other nodes that the edits are for; of a finding, the nodes to rewrite instead of its own.
    sites: tuple[ast.AST, ...] = ()
    file: File | None = None  # where the sites are, if it is another file


@dataclass(frozen=True)
class Finding:
    """A rule that matches at a span."""

    code: str
    path: str
    span: Span
    message: str
    edits: tuple[Edit, ...] = ()
    text: str = ""  # the line that it begins on
    rewriter: Rewriter = Rewriter.HAND


@dataclass
class Suppression:
    """A noqa comment. Without codes, it suppresses every finding on its line."""

    node: ast.AST  # a node without content that has the comment's position
    codes: tuple[str, ...]
    used: set[str] = field(default_factory=set)

    @property
    def unused(self) -> tuple[str, ...]:
        """The shardlift codes that suppressed nothing."""
        return tuple(c for c in self.codes if c.startswith("SL") and c not in self.used)


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One thing that `check` looks for.

    `bad` and `good` are examples: they are tests, and part of the documentation. In a bad example,
    every line that is reported ends in a comment with the code.
    """

    code: str
    level: Level = Level.BROKEN
    summary: str
    advice: str
    reference: str
    bad: tuple[Example, ...]
    good: tuple[Example, ...]
    # The name, the docstring and the function `visit` of the rule's module.
    name: str = ""
    explain: str = ""
    visit: Callable[[File], Iterator[Match]] = lambda _: iter(())
    # Called after all other rules, with each noqa comment that has unused codes.
    visit_unused: Callable[[File, Suppression], Iterator[Match]] | None = None
    # A file is parsed, and the rule run, only if the file contains one of these words or names of
    # JAX, and the pattern if there is one.
    words: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    pattern: re.Pattern[bytes] | None = None
    # The first JAX version that the rule applies to.
    since: Version = (0,)
    before_flax: Version = (9999,)  # the first flax that it does not apply to
    # The JAX and the flax that the bad examples are for, if they are not the newest.
    holds_for: tuple[Version, Version] | None = None
    replaces: str = ""  # the code of findings that are left out where this rule has one
    # The kinds of changes after which a finding is gone; Kind.NAME: the edits of its match.
    rewritten_as: frozenset[Kind] = frozenset()


def dotted(number: Version) -> str:
    """A version in words: `(0, 10, 2)` is `0.10.2`."""
    return ".".join(map(str, number))


def version(text: str) -> Version:
    """Parse a version: `0.10.2.dev1` is `(0, 10, 2)`. Raises ValueError if it is not one."""
    try:
        return Release(text).release
    except InvalidVersion:
        raise ValueError(f"{text!r} is not a version such as 0.10.2") from None
