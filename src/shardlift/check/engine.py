"""Running rules over a file: bytes in, a report out. Files and printing are the caller's."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import PurePath

from shardlift.check.noqa import Suppression, suppressed, suppressions
from shardlift.check.prefilter import active
from shardlift.check.rules import all_rules
from shardlift.source.file import File
from shardlift.source.model import Edit, Finding, Span, Version
from shardlift.source.modules import module_parts
from shardlift.source.project import Project
from shardlift.source.resolve import returns
from shardlift.source.settings import Settings
from shardlift.source.sites import Role
from shardlift.source.text import Source, UnreadableError, read_source
from shardlift.source.values import Known, Mapped, Value
from shardlift.source.wrappers import as_transform

UNUSED = "SL001"
_NOQA = re.compile(rb"noqa\s*:[A-Z0-9,\s]*SL[0-9]")
# The parts of a module's name, and a name in it, that other files may import.
Carried = tuple[tuple[str, ...], str]


@dataclass(frozen=True)
class Options:
    """What to look for; codes may be prefixes, as in `SL4`."""

    select: tuple[str, ...] = ("SL",)
    ignore: tuple[str, ...] = ()
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def codes(self, path: str, target: Version) -> tuple[str, ...]:
        """The codes that count in a file, for a version of JAX."""
        ignored = self.ignore + tuple(
            code
            for pattern, codes in self.per_file_ignores.items()
            if fnmatch(path, pattern) or PurePath(path).match(pattern)
            for code in codes
        )
        return tuple(
            code
            for code, rule in all_rules().items()
            if code.startswith(self.select)
            and not (ignored and code.startswith(ignored))
            and rule.since <= target
        )


@dataclass(frozen=True)
class FileReport:
    """What came of one file."""

    path: str
    findings: tuple[Finding, ...] = ()
    parsed: bool = False  # False: nothing that any rule looks for is in the text
    unreadable: str | None = None  # why the file could not be looked at
    broken_cells: tuple[int, ...] = ()
    suppressed: int = 0
    sites: int = 0
    size: int = 0
    # Module-level names that stand for pmap or for something pmapped: others may import them.
    carries: frozenset[Carried] = frozenset()


# Looks at one file; the second argument is what makes it worth parsing besides words of rules.
Look = Callable[[str, frozenset[Carried]], FileReport]


def check_file(
    project: Project,
    path: str,
    content: bytes,
    options: Options,
    also: frozenset[Carried] = frozenset(),
) -> FileReport:
    """Look at one file; `also` is what makes it worth parsing besides the words of the rules."""
    codes = options.codes(path, project.settings.target)
    worth = active(content, codes, path.endswith(".ipynb"))
    if any(_imports(content, *pair) for pair in also):
        worth = codes
    if not worth or (worth == (UNUSED,) and not _NOQA.search(content)):
        return FileReport(path, size=len(content))
    try:
        source = read_source(path, content)
        file = project.file(path, source)
        report = _check(file, source, worth, options, len(content))
    except UnreadableError as error:
        return FileReport(path, unreadable=str(error), size=len(content))
    except (RecursionError, MemoryError):
        return FileReport(path, unreadable="nested too deeply", size=len(content))
    return report


def check_text(
    text: str,
    options: Options = Options(),
    path: str = "example.py",
    settings: Settings = Settings(),
) -> FileReport:
    """Look at one text on its own."""
    return check_texts({path: text}, options, settings)[path]


def check_texts(
    texts: Mapping[str, str],
    options: Options = Options(),
    settings: Settings = Settings(),
) -> dict[str, FileReport]:
    """Look at several texts that may import one another."""
    contents = {path: text.encode() for path, text in texts.items()}
    project = Project(contents, lambda path: read_source(path, contents[path]), settings)

    def look(path: str, also: frozenset[Carried]) -> FileReport:
        return check_file(project, path, contents[path], options, also)

    return dict(zip(contents, check_paths(tuple(contents), look), strict=True))


def check_paths(
    paths: Sequence[str],
    look: Look,
    apply: Callable[..., Iterable[FileReport]] = map,
    tick: Callable[[], None] = lambda: None,
) -> list[FileReport]:
    """A report for each path, in order, by `apply`, which may be the map of a pool of processes.

    All files are looked at once; those without a word of any rule are looked at once more if they
    may import what turned out to be pmap's. `tick` is called for each file of the first round.
    """
    reports: list[FileReport] = []
    for report in apply(look, paths, [frozenset[Carried]()] * len(paths)):
        reports.append(report)
        tick()
    carried = frozenset(pair for report in reports for pair in report.carries)
    again = [
        number
        for number, report in enumerate(reports)
        if carried and not report.parsed and report.unreadable is None
    ]
    second = apply(look, [paths[number] for number in again], [carried] * len(again))
    for number, report in zip(again, second, strict=True):
        reports[number] = report
    return reports


def _check(
    file: File, source: Source, codes: tuple[str, ...], options: Options, size: int
) -> FileReport:
    comments = suppressions(source.text)
    findings: list[Finding] = []
    silenced = 0
    for code in codes:
        for match in all_rules()[code].visit(file):
            lines = (getattr(match.node, "lineno", 1), getattr(match.node, "end_lineno", 1))
            if suppressed(comments, lines, code):
                silenced += 1
                continue
            edits = () if match.imports else match.edits
            findings.append(Finding(code, file.path, file.span(match.node), match.message, edits))
    if UNUSED in codes:
        findings += _unused(file, comments, options.codes(file.path, file.target))
    return FileReport(
        path=file.path,
        findings=tuple(sorted(set(findings), key=lambda f: (_order(f.span), f.code, f.message))),
        parsed=True,
        broken_cells=source.cells.broken if source.cells else (),
        suppressed=silenced,
        sites=_count_sites(file),
        size=size,
        carries=_carried(file),
    )


def _count_sites(file: File) -> int:
    if "pmap" not in file.source.text and "Parallel" not in file.source.text:
        return 0
    return sum(site.role is Role.MAP for site in file.sites) + len(file.unfollowed)


def _unused(
    file: File, comments: Iterable[Suppression], codes: tuple[str, ...]
) -> Iterable[Finding]:
    for comment in comments:
        # A code that was not looked for may well be of use in another run.
        unused = [c for c in comment.unused if c in codes or c not in all_rules()]
        if unused:
            last = comment.column + comment.length
            span = file.stretch(comment.line, comment.column, comment.line, last)
            keep = [c for c in comment.codes if c not in unused]
            edits = (Edit(span, f"# noqa: {', '.join(keep)}"),) if keep else ()
            message = f"nothing on this line is suppressed by {', '.join(unused)}"
            yield Finding(UNUSED, file.path, span, message, edits)


def _imports(content: bytes, module: tuple[str, ...], name: str) -> bool:
    """Whether a text may import a name: it says the name, and a part of the module's."""
    if name.encode() not in content or b"import" not in content:
        return False
    return any(part.encode() in content for part in module[-2:]) or b"from ." in content


def _carried(file: File) -> frozenset[Carried]:
    if "pmap" not in file.source.text:
        return frozenset()
    module = module_parts(file.path)
    return frozenset(
        (module, name)
        for name, bound in file.index.module.names.items()
        if not isinstance(bound[-1], ast.alias)
        for value in file.exported(name)
        if isinstance(value, Mapped) or as_transform(value) or _makes_mapped(value)
    )


def _makes_mapped(value: Value) -> bool:
    """Whether a function returns something pmapped, alone or in a tuple."""
    if not isinstance(value, Known):
        return False
    for returned in returns(value):
        parts = returned.elts if isinstance(returned, ast.Tuple) else [returned]
        if any(isinstance(v, Mapped) for part in parts for v in value.file.values(part)):
            return True
    return False


def _order(span: Span) -> tuple[int, int, int]:
    return span.cell or 0, span.line, span.column
