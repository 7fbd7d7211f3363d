"""Looking at many files: reading them, and what is said of those that cannot be looked at."""

import gc
import os
import traceback
from collections.abc import Callable, Sequence

from shardlift.check.engine import Export, FileReport, RuleSelection, check_file, check_paths
from shardlift.cli.files import read_bytes, reason
from shardlift.source.file import File
from shardlift.source.model import Match, Rewriter, Rule
from shardlift.source.project import Project
from shardlift.source.settings import Settings
from shardlift.source.text import read_source


def check_files(
    paths: Sequence[str],
    options: RuleSelection,
    settings: Settings = Settings(),
    tick: Callable[[], None] = lambda: None,
) -> list[FileReport]:
    """A report for each path, in order; `tick` is called after each of the first round."""
    project = Project(paths, lambda path: read_source(path, read_bytes(path)), settings)

    def look(path: str, also: frozenset[Export]) -> FileReport:
        try:
            content = read_bytes(path)
            report = check_file(project, path, content, options, also, rewriter_of=_rewriter_of)
        except OSError as error:
            return FileReport(path, unreadable=reason(error))
        except Exception as error:  # of ours; the other files are looked at all the same
            return FileReport(path, unreadable=failure_text(error))
        if report.parsed and project.trim():
            gc.collect()
        return report

    # A syntax tree is all small objects that live as long as the file does: counting them over
    # and over takes a third of the time, so it is put off until they are dropped.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        reports = check_paths(paths, look, tick)
        if any(f.rewriter is Rewriter.MIGRATE_IF_MOST for r in reports for f in r.findings):
            from shardlift.rewrite.marks import settle

            reports = settle(project, reports)
        project.trim(most=0)  # before the collector is back, which would look at every tree
        return reports
    finally:
        if was_enabled:
            gc.enable()


def _rewriter_of(file: File, rule: Rule, match: Match) -> Rewriter:
    """Who rewrites a finding. The steps are loaded if there is one."""
    from shardlift.rewrite.marks import rewriter_of

    return rewriter_of(file, rule, match)


def failure_text(error: Exception) -> str:
    """What is said of a file on which shardlift itself fell over."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{os.path.basename(frame.filename)}:{frame.lineno}"
    return f"shardlift failed on it, please report it: {type(error).__name__}: {error} ({where})"
