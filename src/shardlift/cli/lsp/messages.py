"""Findings, rules and rewrites as an editor wants them: diagnostics, hovers, code actions."""

from collections.abc import Callable, Iterable
from typing import Any

from lsprotocol import types
from pygls.workspace import PositionCodec

from shardlift.check.rules import all_rules
from shardlift.cli.lsp.analysis import line_edits
from shardlift.source.edits import split_lines
from shardlift.source.model import Edit, Finding, Level, Span

SOURCE = "shardlift"
_SEVERITY = {
    Level.BROKEN: types.DiagnosticSeverity.Error,
    Level.SLOW: types.DiagnosticSeverity.Warning,
    Level.NOTE: types.DiagnosticSeverity.Information,
}
_NAMES = "SL1"  # the family of removed and renamed names, which editors strike out


class Positions:
    """Positions in one text: ours from 1 in characters, an editor's from 0 in its units."""

    def __init__(self, text: str, codec: PositionCodec) -> None:
        """`codec` has the encoding that editor and server agreed on."""
        self._lines = split_lines(text)
        self._codec = codec

    def range(self, span: Span) -> types.Range:
        """A span as the editor counts it."""
        start = types.Position(span.line - 1, span.column)
        end = types.Position(span.end_line - 1, span.end_column)
        return self._codec.range_to_client_units(self._lines, types.Range(start, end))

    def span(self, given: types.Range) -> Span:
        """A range of the editor as a span."""
        found = self._codec.range_from_client_units(self._lines, given)
        start, end = found.start, found.end
        return Span(start.line + 1, start.character, end.line + 1, end.character)


def diagnostic(finding: Finding, positions: Positions) -> types.Diagnostic:
    """A finding."""
    rule = all_rules()[finding.code]
    tags = [types.DiagnosticTag.Deprecated] if rule.code.startswith(_NAMES) else None
    return types.Diagnostic(
        range=positions.range(finding.span),
        message=f"{finding.message}. {rule.advice}",
        severity=_SEVERITY[rule.level],
        code=finding.code,
        code_description=types.CodeDescription(href=rule.reference),
        source=SOURCE,
        tags=tags,
    )


def hover(findings: Iterable[Finding]) -> str:
    """The explanations of the rules of some findings, as Markdown."""
    explained = []
    for rule in (all_rules()[code] for code in dict.fromkeys(f.code for f in findings)):
        paragraphs = (" ".join(part.split()) for part in rule.explain.strip().split("\n\n"))
        title = f"**{rule.code} {rule.name}** ({rule.level.value})"
        todo = (f"What to do: {rule.advice}", f"[Reference]({rule.reference})")
        explained.append("\n\n".join([title, *paragraphs, *todo]))
    return "\n\n---\n\n".join(explained)


def quick_fix(uri: str, finding: Finding, positions: Positions) -> types.CodeAction:
    """An action that mends one finding."""
    return types.CodeAction(
        title=f"Mend {finding.code}: {finding.message}",
        kind=types.CodeActionKind.QuickFix,
        diagnostics=[diagnostic(finding, positions)],
        edit=types.WorkspaceEdit(changes={uri: _text_edits(finding.edits, positions)}),
    )


def rewrite_edit(
    texts: Iterable[tuple[str, str, str]], positions_of: Callable[[str], Positions]
) -> types.WorkspaceEdit:
    """The edit that changes files: of each its address, old and new text. One without is new."""
    changes: list[Any] = []
    for uri, before, after in texts:
        if not before:
            options = types.CreateFileOptions(ignore_if_exists=True)
            changes.append(types.CreateFile(uri=uri, options=options))
        document = types.OptionalVersionedTextDocumentIdentifier(uri=uri)
        edits = _text_edits(line_edits(before, after), positions_of(before))
        changes.append(types.TextDocumentEdit(text_document=document, edits=edits))
    return types.WorkspaceEdit(document_changes=changes)


def _text_edits(edits: Iterable[Edit], positions: Positions) -> list[Any]:
    return [types.TextEdit(positions.range(edit.span), edit.replacement) for edit in edits]
