"""Who rewrites a finding: asked of the steps that rewrite its file, without rewriting it."""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace

from shardlift.check.engine import FileReport
from shardlift.rewrite import removed_names, sites
from shardlift.rewrite.goal import Goal
from shardlift.rewrite.imports import is_optional
from shardlift.rewrite.left_alone import explains_pmap
from shardlift.rewrite.nested import is_repair
from shardlift.rewrite.passes import STEPS
from shardlift.rewrite.removed_names import why_too_new
from shardlift.rewrite.sites import count, leaving_sites, rewrite_if_most, why_all_stay
from shardlift.source.file import File, remembered
from shardlift.source.mentions import OWN
from shardlift.source.model import MAPS, Finding, Kind, Level, Match, Rewriter, Rule
from shardlift.source.project import Project
from shardlift.source.values import Mapped, Transform

_STEPS = (
    rewrite_if_most,
    *(step for step in STEPS if step not in (sites.rewrite, removed_names.rewrite)),
)


def rewriter_of(file: File, rule: Rule, match: Match) -> Rewriter:
    """The command after which a finding is gone. What `settle` has to decide is left open."""
    if Kind.NAME in rule.rewritten_as and match.edits:
        shown = rule.level is Level.SLOW and explains_pmap(file, match.node)
        stays = shown or why_too_new(file, match) or _stays(file)
        return Rewriter.HAND if stays else Rewriter.FIX
    if not rule.rewritten_as - {Kind.NAME}:
        return Rewriter.HAND
    if match.file is not None:
        file = match.file
    rewriters = {_rewriter_at(file, rule, node) for node in match.sites or (match.node,)}
    return next(rewriter for rewriter in reversed(Rewriter) if rewriter in rewriters)


def settle(project: Project, reports: Iterable[FileReport]) -> list[FileReport]:
    """The reports of all files of a project: now it is known whether most of its sites leave."""
    most = Rewriter.MIGRATE if why_all_stay(project) is None else Rewriter.HAND

    def settled(finding: Finding) -> Finding:
        waits = finding.rewriter is Rewriter.MIGRATE_IF_MOST
        return replace(finding, rewriter=most) if waits else finding

    return [replace(r, findings=tuple(dict.fromkeys(map(settled, r.findings)))) for r in reports]


@remembered
def _stays(file: File) -> bool:
    """Whether nothing of a file is written: it may run without JAX, and helpers would need it."""
    if not is_optional(file.index):
        return False
    changes = (*_changes(file), *removed_names.rewrite(file, Goal.FIX))
    return any(change.helpers for change in changes)


def _rewriter_at(file: File, rule: Rule, node: ast.AST) -> Rewriter:
    changes = _changes_at(file, rule, node)
    if not changes:
        return _rewriter_elsewhere(file, node) if rule.rewritten_as & MAPS else Rewriter.HAND
    if _stays(file) or any(not one.edits or why_too_new(file, one) for one in changes):
        return Rewriter.HAND
    if all(is_repair(file, change) for change in changes):
        return Rewriter.FIX
    leaves = any(change.node in leaving_sites(file) for change in changes)
    return Rewriter.MIGRATE_IF_MOST if leaves else Rewriter.MIGRATE


def _changes_at(file: File, rule: Rule, node: ast.AST) -> list[Match]:
    """What the steps say of a node, or else of the nodes around it or inside it."""
    near = {k for line in _lines(node) for k in _by_line(file).get(line, ())}
    changes = [_changes(file)[k] for k in sorted(near)]
    changes = [change for change in changes if change.kind in rule.rewritten_as]
    just = [change for change in changes if node in (change.node, *change.sites)]
    span = file.span(node)
    return just or [
        change
        for change in changes
        if any(span.overlaps(file.span(other)) for other in (change.node, *change.sites))
    ]


@remembered
def _changes(file: File) -> list[Match]:
    """What `migrate` changes, or refuses to change, but for removed names."""
    changes = [match for step in _STEPS for match in step(file, Goal.SHARD_MAP)]
    count(file)  # while it is resolved
    return changes


@remembered
def _by_line(file: File) -> dict[int, list[int]]:
    """The numbers of the changes that are on a line: a file may have thousands."""
    lines: dict[int, list[int]] = {}
    for number, change in enumerate(_changes(file)):
        for line in {n for node in (change.node, *change.sites) for n in _lines(node)}:
            lines.setdefault(line, []).append(number)
    return lines


def _lines(node: ast.AST) -> range:
    first = getattr(node, "lineno", 0)
    return range(first, (getattr(node, "end_lineno", None) or first) + 1)


def _rewriter_elsewhere(file: File, node: ast.AST) -> Rewriter:
    """Who rewrites a function that is mapped by a name, where the name is made."""
    site = next((site for site in file.sites if site.node is node), None)
    if site is None or site.transform.origin not in OWN or file.many_processes:
        return Rewriter.HAND
    files = {file, *_files(file, site.transform, node)}
    mapping = [c for other in files for c in _changes(other) if c.kind in MAPS]
    if not all(change.edits for change in mapping):
        return Rewriter.HAND
    return Rewriter.MIGRATE_IF_MOST if any(map(leaving_sites, files)) else Rewriter.MIGRATE


def _files(file: File, transform: Transform, node: ast.AST) -> Iterator[File]:
    """The files in which the keywords of a wrapper, or the wrapper, are written."""
    yield from (located.file for located in transform.keywords.values())
    function = node.func if isinstance(node, ast.Call) else node
    for value in file.values(function):
        if (other := getattr(value, "file", None)) is not None and not isinstance(value, Mapped):
            yield other
