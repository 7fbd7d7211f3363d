"""Findings, rules and rewrites as an editor wants them: diagnostics, hovers, code actions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from lsprotocol import types

from shardlift.check.rules import all_rules
from shardlift.cli.lsp.analysis import line_edits
from shardlift.cli.lsp.positions import Positions
from shardlift.source.model import Edit, Finding, Level, Rule

SOURCE = "shardlift"
_SEVERITY = {
    Level.BROKEN: types.DiagnosticSeverity.Error,
    Level.SLOW: types.DiagnosticSeverity.Warning,
    Level.NOTE: types.DiagnosticSeverity.Information,
}
_NAMES = "SL1"  # the family of removed and renamed names, which editors strike out


@dataclass(frozen=True)
class NewText:
    """What becomes of a file."""

    uri: str
    before: str
    after: str

    @property
    def is_new_file(self) -> bool:
        """Whether the editor has to create it: it had no text before."""
        return not self.before


def diagnostic(finding: Finding, positions: Positions, is_known: bool) -> types.Diagnostic:
    """A finding; one of the baseline is shown as a hint."""
    rule = all_rules()[finding.code]
    severity = types.DiagnosticSeverity.Hint if is_known else _SEVERITY[rule.level]
    tags = [types.DiagnosticTag.Deprecated] if rule.code.startswith(_NAMES) else None
    return types.Diagnostic(
        range=positions.range(finding.span),
        message=f"{finding.message}. {rule.advice}",
        severity=severity,
        code=finding.code,
        code_description=types.CodeDescription(href=rule.reference),
        source=SOURCE,
        tags=tags,
    )


def hover(findings: Iterable[Finding]) -> str:
    """The explanations of the rules of some findings, as Markdown."""
    codes = dict.fromkeys(finding.code for finding in findings)
    return "\n\n---\n\n".join(_explanation(all_rules()[code]) for code in codes)


def _explanation(rule: Rule) -> str:
    paragraphs = (" ".join(part.split()) for part in rule.explain.strip().split("\n\n"))
    return "\n\n".join(
        [
            f"**{rule.code} {rule.name}** ({rule.level.value})",
            *paragraphs,
            f"What to do: {rule.advice}",
            f"[Reference]({rule.reference})",
        ]
    )


def quick_fix(uri: str, finding: Finding, positions: Positions) -> types.CodeAction:
    """An action that mends one finding."""
    return types.CodeAction(
        title=f"Mend {finding.code}: {finding.message}",
        kind=types.CodeActionKind.QuickFix,
        diagnostics=[diagnostic(finding, positions, is_known=False)],
        edit=types.WorkspaceEdit(changes={uri: _text_edits(finding.edits, positions)}),
    )


def rewrite_action(
    title: str,
    texts: Sequence[NewText],
    reason: str,
    positions_of: Callable[[str], Positions],
    client: Any,
) -> types.CodeAction | None:
    """An action that changes texts; disabled or None, if there is a reason why it cannot."""
    if not reason and any(text.is_new_file for text in texts) and not _creates(client):
        reason = "the editor cannot create the module of helpers; use `shardlift migrate`"
    if reason:
        disabled = types.CodeActionDisabled(reason=reason)
        kind = types.CodeActionKind.RefactorRewrite
        return types.CodeAction(title, kind, disabled=disabled) if _disables(client) else None
    changes = [
        change for text in texts for change in _text_changes(text, positions_of(text.before))
    ]
    edit = types.WorkspaceEdit(document_changes=changes)
    return types.CodeAction(title, types.CodeActionKind.RefactorRewrite, edit=edit)


def _text_changes(text: NewText, positions: Positions) -> list[Any]:
    document = types.OptionalVersionedTextDocumentIdentifier(uri=text.uri)
    edits = _text_edits(line_edits(text.before, text.after), positions)
    changes: list[Any] = [types.TextDocumentEdit(text_document=document, edits=edits)]
    if text.is_new_file:
        options = types.CreateFileOptions(ignore_if_exists=True)
        changes.insert(0, types.CreateFile(uri=text.uri, options=options))
    return changes


def _text_edits(edits: Iterable[Edit], positions: Positions) -> list[Any]:
    return [types.TextEdit(positions.range(edit.span), edit.replacement) for edit in edits]


def resolves(client: Any) -> bool:
    """Whether the editor asks for the edits of an action when it is chosen."""
    actions = getattr(getattr(client, "text_document", None), "code_action", None)
    lazy = getattr(getattr(actions, "resolve_support", None), "properties", None) or []
    return "edit" in lazy and bool(getattr(actions, "data_support", False))


def _creates(client: Any) -> bool:
    edits = getattr(getattr(client, "workspace", None), "workspace_edit", None)
    operations = getattr(edits, "resource_operations", None) or []
    return types.ResourceOperationKind.Create in operations


def _disables(client: Any) -> bool:
    actions = getattr(getattr(client, "text_document", None), "code_action", None)
    return bool(getattr(actions, "disabled_support", False))
