"""One file, pass by pass: what the steps rewrite of it, until none has anything left to do.

Rewrites may lie inside one another: the outer one is made first, the text is parsed again, and
the inner one is found in the new text. Each has the identity that it has in the text before.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from shardlift.rewrite import output_reads, placement, removed_names, shim, sites
from shardlift.rewrite.alignment import keep_aligned
from shardlift.rewrite.changes import Change, ChangeId, notebook_id
from shardlift.rewrite.goal import Goal, Step
from shardlift.rewrite.nested import is_repair
from shardlift.rewrite.notebook import edit_cells
from shardlift.rewrite.removed_names import why_too_new
from shardlift.source.edits import apply_edits, origin
from shardlift.source.file import File
from shardlift.source.model import Edit, HelperRequest, Kind, Match, Span
from shardlift.source.notebook import is_python
from shardlift.source.scopes import FUNCTIONS, all_arguments
from shardlift.source.text import Source, read_source

# What is done to each file, in this order; where two want the same text the outer one has it,
# and the inner one its turn in the next pass.
STEPS: tuple[Step, ...] = (
    sites.rewrite,
    shim.rewrite,
    sites.list_unfollowed,
    placement.rewrite,
    output_reads.rewrite,
    removed_names.rewrite,
)
PASSES = 5
_NOT_CHOSEN = "not chosen"
Left = Mapping[ChangeId, str]  # changes that are not to be made, with the reason


@dataclass
class Rendering:
    """The text of one file while it is rewritten, and the changes that led to it."""

    before: Source
    source: Source  # with its new text
    document: str | None = None  # of a notebook, as it was
    raw: str | None = None  # of a notebook: its document, with the new text
    changes: list[Change] = field(default_factory=list)
    refused: list[Change] = field(default_factory=list)
    skipped: list[Change] = field(default_factory=list)
    imports: set[str] = field(default_factory=set)
    helpers: set[HelperRequest] = field(default_factory=set)
    # The text before each pass, and the edits of that pass.
    _passes: list[tuple[str, list[Edit]]] = field(default_factory=list)

    @classmethod
    def of(cls, source: Source, document: str | None = None) -> Rendering:
        """The file before any pass; `document` is its JSON if it is a notebook."""
        return cls(source, source, document, document)

    @property
    def text(self) -> str:
        """The new text."""
        return self.source.text

    def make(self, file: File, matches: list[Match]) -> None:
        """Apply the edits of one pass; `file` has the text so far.

        Where some leave a block empty together, the last of them wait for the next pass.
        """
        edits, raw, source = self._edited(matches)
        while matches and _reads(source) != _reads(self.source):
            matches = matches[:-1]
            edits, raw, source = self._edited(matches)
        self.changes += [self.change(file, match) for match in matches]
        self.imports |= {line for match in matches for line in match.imports}
        self.helpers |= {request for match in matches for request in match.helpers}
        if self.raw is None and edits:
            self._passes.append((self.text, edits))
        self.raw, self.source = raw, source

    def _edited(self, matches: list[Match]) -> tuple[list[Edit], str | None, Source]:
        """The edits of some matches, and the text with them."""
        # Several matches may need the same line above them.
        made = dict.fromkeys(edit for match in matches for edit in match.edits)
        edits = [_with_line_ends(edit, self.text) for edit in made]
        if self.raw is None:
            return edits, None, replace(self.source, text=apply_edits(self.text, edits))
        raw = edit_cells(self.raw, edits)
        return edits, raw, read_source(self.before.path, raw.encode())

    def change(self, file: File, match: Match) -> Change:
        """The change that a match in the current text is, with its place in the text before."""
        span, nodes = file.span(match.node), [match.node, *match.sites]
        if self.raw is not None:  # its cells are counted as they are now
            identity, nodes = notebook_id(file.path), []
        else:
            span = self._moved(span)
            identity = ChangeId(file.path, span.line, span.column, match.kind)
        spans = [self._moved(file.span(n)) for n in nodes if match.kind in (Kind.SITE, Kind.VALUE)]
        return Change(
            identity,
            match.kind,
            span,
            file.brief(match.node),
            tuple((part.line, part.end_line) for part in spans),
            match.message,
            match.name,
            match.successor,
            not _is_deferred(file, match.node),
        )

    def identity(self, file: File, match: Match) -> ChangeId | None:
        """The identity of a match; None if it stands in text that an earlier pass wrote."""
        if self.raw is not None:
            return notebook_id(file.path)
        line, column, is_old = self._origin(file.span(match.node))
        return ChangeId(file.path, line, column, match.kind) if is_old else None

    def _moved(self, span: Span) -> Span:
        line, column, _ = self._origin(span)
        last = max(line, line + span.end_line - span.line)
        return replace(span, line=line, column=column, end_line=last)

    def _origin(self, span: Span) -> tuple[int, int, bool]:
        """Where a place of the current text comes from, and whether it is just that text."""
        line, column, exact = span.line, span.column, True
        for before, edits in reversed(self._passes):
            line, column, same = origin(before, edits, line, column)
            exact = exact and same
        return line, column, exact


def render(
    file: File, goal: Goal, rendering: Rendering, left: Left, lines: tuple[int, int] | None = None
) -> None:
    """Rewrite a file, or some lines of it, until no step has anything left to do."""

    def reason_to_leave(current: File, match: Match) -> str | None:
        identity = rendering.identity(current, match) if left or lines else None
        if identity is None or identity in left:
            return identity and left[identity]
        is_elsewhere = lines and not rendering.change(current, match).touches(*lines)
        return _NOT_CHOSEN if is_elsewhere else None

    current = file
    for number in range(PASSES):
        chosen, others = one_pass(current, goal, reason_to_leave)
        if not number:
            for match in others:
                listed = rendering.skipped if match.skipped else rendering.refused
                listed.append(rendering.change(file, match))
        if not chosen:
            break
        rendering.make(current, chosen)
        current = File(rendering.source, file.project)
    if rendering.raw is None:  # what the first pass left, others may have made possible
        made = {(change.id, change.name) for change in rendering.changes if change.name}
        rendering.refused = [x for x in rendering.refused if (x.id, x.name) not in made]


def one_pass(
    file: File, goal: Goal, reason_to_leave: Callable[[File, Match], str | None]
) -> tuple[list[Match], list[Match]]:
    """What is rewritten, and what is not."""
    wanted: list[Match] = []
    refused: list[Match] = []
    for step in STEPS:
        for match in step(file, goal):
            if goal is Goal.FIX and not is_repair(file, match):
                continue
            reason = match.edits and (why_too_new(file, match) or reason_to_leave(file, match))
            if isinstance(reason, str):
                match = Match(match.node, reason, kind=match.kind)
            (wanted if match.edits else refused).append(match)
    return _without_overlaps(file, keep_aligned(file, wanted)), refused


def _reads(source: Source) -> object:
    """What of a text is Python: all of it or nothing; the cells that are not."""
    return is_python(source.text) if source.cells is None else source.cells.broken


def _is_deferred(file: File, node: ast.AST) -> bool:
    """Whether a node is in the body of a function, or in an annotation that is not evaluated."""
    imports = file.index.nodes(ast.ImportFrom)
    named = {alias.name for one in imports if one.module == "__future__" for alias in one.names}
    for child, parent in pairwise([node, *file.index.ancestors(node)]):
        annotations = [getattr(parent, "annotation", None), getattr(parent, "returns", None)]
        if isinstance(parent, FUNCTIONS):
            if child is parent.body or (isinstance(parent.body, list) and child in parent.body):
                return True
            annotations += [argument.annotation for argument in all_arguments(parent.args)]
        if child in file.index.quoted or (child in annotations and "annotations" in named):
            return True
    return False


def _with_line_ends(edit: Edit, text: str) -> Edit:
    """An edit with the line endings of the text."""
    if "\n" not in edit.replacement or "\r\n" not in text:
        return edit
    return replace(edit, replacement=re.sub(r"(?<!\r)\n", "\r\n", edit.replacement))


def _without_overlaps(file: File, matches: list[Match]) -> list[Match]:
    """Those whose edits do not touch; of two that do, the one that starts first, or is wider."""
    chosen: list[Match] = []
    taken: list[Span] = []

    def order(match: Match) -> tuple[int, int, int, int]:
        span = file.span(match.node)
        return span.line, span.column, -span.end_line, -span.end_column

    for match in sorted(matches, key=order):
        spans = [edit.span for edit in match.edits]
        if not any(part.overlaps(other) for part in spans for other in taken):
            chosen.append(match)
            taken += spans
    return chosen
