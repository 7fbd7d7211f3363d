"""Looking at many files: reading them, in one process or several."""

from __future__ import annotations

import contextlib
import gc
import os
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from shardlift.check.engine import (
    CheckPath,
    Export,
    FileReport,
    RuleSelection,
    check_file,
    check_paths,
)
from shardlift.cli.files import read_bytes, reason
from shardlift.source.file import File
from shardlift.source.model import Match, Rewriter, Rule
from shardlift.source.project import Project
from shardlift.source.settings import Settings
from shardlift.source.text import read_source

# Below this many files another process takes longer to start than it saves.
_WORTH_A_PROCESS = 400
_look_here: CheckPath | None = None


def run(
    paths: Sequence[str],
    options: RuleSelection,
    settings: Settings = Settings(),
    jobs: int = 0,
    tick: Callable[[], None] = lambda: None,
) -> list[FileReport]:
    """A report for each path, in order; `jobs` of 0 means as many as the machine and work want."""
    if jobs < 1:
        jobs = min(os.cpu_count() or 1, 1 + len(paths) // _WORTH_A_PROCESS)
    if jobs == 1:
        # A syntax tree is all small objects that live as long as the file does: counting them
        # over and over takes a third of the time, so it is put off until they are dropped.
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            return check_paths(paths, _looker(paths, options, settings), map, tick)
        finally:
            if was_enabled:
                gc.enable()
    with (
        _safe_path(),
        ProcessPoolExecutor(jobs, initializer=_start, initargs=(paths, options, settings)) as pool,
    ):
        chunk = max(1, min(50, len(paths) // (4 * jobs)))
        return check_paths(paths, _elsewhere, partial(pool.map, chunksize=chunk), tick)


@contextlib.contextmanager
def _safe_path() -> Iterator[None]:
    """Processes that are started anew do not look for modules in the current folder."""
    name = "PYTHONSAFEPATH"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _looker(paths: Sequence[str], options: RuleSelection, settings: Settings) -> CheckPath:
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

    return look


def _rewriter_of(file: File, rule: Rule, match: Match) -> Rewriter:
    """Who rewrites a finding. The steps are loaded if there is one."""
    from shardlift.rewrite.marks import rewriter_of

    return rewriter_of(file, rule, match)


def failure_text(error: Exception) -> str:
    """What is said of a file on which shardlift itself fell over."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{os.path.basename(frame.filename)}:{frame.lineno}"
    return f"shardlift failed on it, please report it: {type(error).__name__}: {error} ({where})"


def _start(paths: Sequence[str], options: RuleSelection, settings: Settings) -> None:
    global _look_here
    gc.disable()
    _look_here = _looker(paths, options, settings)


def _elsewhere(path: str, also: frozenset[Export]) -> FileReport:
    assert _look_here is not None
    return _look_here(path, also)
