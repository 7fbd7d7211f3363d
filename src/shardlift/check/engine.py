"""The engine of `check`: runs the rules over files, without reading or printing them itself."""

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cache

from shardlift.check.noqa import find_suppressions, suppress
from shardlift.check.prefilter import active_codes
from shardlift.check.rules import all_rules
from shardlift.source.file import File
from shardlift.source.import_graph import module_parts
from shardlift.source.model import Finding, Match, Rewriter, Rule
from shardlift.source.project import Project
from shardlift.source.settings import Settings
from shardlift.source.shard_maps import HELPERS, count_migrated
from shardlift.source.sites import Role
from shardlift.source.text import UnreadableError, read_source
from shardlift.source.values import Known, Mapped, Value
from shardlift.source.wrappers import as_transform

# The parts of a module's name, and a name in the module that other files may import.
Export = tuple[tuple[str, ...], str]


@dataclass(frozen=True)
class RuleSelection:
    """The rules to run. Codes may be prefixes, such as `SL4`."""

    select: tuple[str, ...] = ("SL",)
    ignore: tuple[str, ...] = ()
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def codes(self, path: str, settings: Settings) -> tuple[str, ...]:
        """The codes of the rules that are selected for a file and apply to the JAX of a project."""
        ignored = self.ignore
        for pattern, codes in self.per_file_ignores.items():
            if fnmatch(path, pattern) or fnmatch(path, f"*/{pattern}"):
                ignored += codes
        return _codes(self.select, ignored, settings)


@cache
def _codes(
    select: tuple[str, ...], ignored: tuple[str, ...], settings: Settings
) -> tuple[str, ...]:
    return tuple(
        code
        for code, rule in all_rules().items()
        if code.startswith(select) and not code.startswith(ignored)
        if rule.since <= settings.target and settings.usable_flax < rule.before_flax
    )


@dataclass(frozen=True)
class FileReport:
    """The result of checking one file."""

    path: str
    findings: tuple[Finding, ...] = ()
    parsed: bool = False  # False if the text contains nothing that a rule looks for
    unreadable: str | None = None  # why the file could not be checked
    broken_cells: tuple[int, ...] = ()
    suppressed: int = 0
    sites: int = 0  # pmapped
    migrated: int = 0  # mapped by shard_map
    # Module-level names that are pmap or pmapped functions, which other files may import.
    exports: frozenset[Export] = frozenset()


# Who rewrites what a rule reports in a file: `check` itself does not know.
RewriterOf = Callable[[File, Rule, Match], Rewriter]
# Checks one file. A file that may import one of the exports is parsed in any case.
CheckPath = Callable[[str, frozenset[Export]], FileReport]


def check_file(
    project: Project,
    path: str,
    content: bytes,
    options: RuleSelection,
    exports: frozenset[Export] = frozenset(),
    may_be_mapped: bool = False,
    rewriter_of: RewriterOf = lambda *_: Rewriter.HAND,
) -> FileReport:
    """Check one file. If it may import a pmapped function, the word pmap need not be in it."""
    selected = options.codes(path, project.settings)
    imports = may_be_mapped or any(_may_import(content, *export) for export in exports)
    text = content + b"\npmap" if imports else content
    codes = active_codes(text, selected, path.endswith(".ipynb"))
    if not codes and not any(word.encode() in content for word in ("shard_map", *HELPERS)):
        return FileReport(path)
    fresh = project.fresh()
    try:
        file = fresh.file(path, read_source(path, content))
        return _check(file, codes, selected, rewriter_of)
    except UnreadableError as error:
        return FileReport(path, unreadable=str(error))
    except (RecursionError, MemoryError):
        return FileReport(path, unreadable="nested too deeply")
    finally:
        fresh.close()


def check_text(
    text: str,
    options: RuleSelection = RuleSelection(),
    path: str = "example.py",
    settings: Settings = Settings(),
) -> FileReport:
    """Check one text."""
    return check_texts({path: text}, options, settings)[path]


def check_texts(
    texts: Mapping[str, str],
    options: RuleSelection = RuleSelection(),
    settings: Settings = Settings(),
) -> dict[str, FileReport]:
    """Check several texts that may import each other."""
    contents = {path: text.encode() for path, text in texts.items()}
    project = Project(contents, lambda path: read_source(path, contents[path]), settings)

    def check(path: str, exports: frozenset[Export]) -> FileReport:
        return check_file(project, path, contents[path], options, exports)

    return dict(zip(contents, check_paths(tuple(contents), check), strict=True))


def check_paths(
    paths: Sequence[str], check: CheckPath, tick: Callable[[], None] = lambda: None
) -> list[FileReport]:
    """A report for each path, in order.

    Files that were not parsed are checked a second time if they may import a pmapped function from
    another file. `tick` is called for each file of the first round.
    """
    reports: list[FileReport] = []
    for path in paths:
        reports.append(check(path, frozenset()))
        tick()
    exports = frozenset(export for report in reports for export in report.exports)
    for number, report in enumerate(reports):
        if exports and not report.parsed and report.unreadable is None:
            reports[number] = check(report.path, exports)
    return reports


def _check(
    file: File, codes: tuple[str, ...], selected: tuple[str, ...], rewriter_of: RewriterOf
) -> FileReport:
    matches, suppressed = _find(file, [all_rules()[code] for code in codes], selected)
    findings = {_finding(file, rule, match, rewriter_of) for rule, match in matches}
    has_sites = any(word in file.source.text for word in ("pmap", "Parallel"))
    mapped = sum(site.role is Role.MAP for site in file.sites) if has_sites else 0
    return FileReport(
        path=file.path,
        findings=tuple(sorted(findings, key=_order)),
        parsed=True,
        broken_cells=file.source.cells.broken if file.source.cells else (),
        suppressed=suppressed,
        sites=mapped + len(file.unfollowed) if has_sites else 0,
        migrated=count_migrated(file),
        exports=_exports(file),
    )


def _find(
    file: File, rules: list[Rule], selected: tuple[str, ...]
) -> tuple[list[tuple[Rule, Match]], int]:
    """The matches of some rules, and the number of others that comments suppress."""
    matches = [(rule, match) for rule in rules for match in rule.visit(file)]
    replaced = {(rule.replaces, match.node) for rule, match in matches if rule.replaces}
    matches = [
        (rule, match)
        for rule, match in matches
        if replaced.isdisjoint(
            (rule.code, node) for node in (match.node, *file.index.ancestors(match.node))
        )
    ]
    if not matches and not any(rule.visit_unused for rule in rules):
        return [], 0
    # A code that this run does not check may suppress something in another run.
    comments = find_suppressions(file.source.text, excused=all_rules().keys() - selected)
    kept = [(rule, match) for rule, match in matches if not suppress(comments, match.node, rule)]
    suppressed = len(matches) - len(kept)
    unused = [comment for comment in comments.values() if comment.unused]
    for rule in rules:
        if visit := rule.visit_unused:
            kept += [(rule, match) for comment in unused for match in visit(file, comment)]
    return kept, suppressed


def _finding(file: File, rule: Rule, match: Match, rewriter_of: RewriterOf) -> Finding:
    edits = () if match.imports else match.edits
    line = file.lines[getattr(match.node, "lineno", 1) - 1]
    span, rewriter = file.span(match.node), rewriter_of(file, rule, match)
    return Finding(rule.code, file.path, span, match.message, edits, line, rewriter)


def _may_import(content: bytes, module: tuple[str, ...], name: str) -> bool:
    """Whether a text may import a name: it contains the name and a part of the module's name."""
    if name.encode() not in content or b"import" not in content:
        return False
    return any(part.encode() in content for part in module[-2:]) or b"from ." in content


def _exports(file: File) -> frozenset[Export]:
    if "pmap" not in file.source.text:
        return frozenset()
    module = module_parts(file.path)
    return frozenset(
        (module, name)
        for name, bound in file.index.module.names.items()
        if not isinstance(bound[-1], ast.alias)
        for value in file.exported(name)
        if isinstance(value, Mapped) or as_transform(value) or _returns_mapped(value)
    )


def _returns_mapped(value: Value) -> bool:
    """Whether a function returns a pmapped function, alone or in a tuple."""
    if not isinstance(value, Known):
        return False
    returned = [r.elts if isinstance(r, ast.Tuple) else [r] for r in value.returns()]
    values = (v for parts in returned for part in parts for v in value.file.values(part))
    return any(isinstance(v, Mapped) for v in values)


def _order(finding: Finding) -> tuple[int, int, int, str, str]:
    span = finding.span
    return span.cell or 0, span.line, span.column, finding.code, finding.message
