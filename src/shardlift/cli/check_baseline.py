"""The baseline file of `check`: where it is, and what it leaves of a report."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from shardlift._files import replace_file
from shardlift.check.baseline import (
    Baseline,
    BaselineError,
    Coverage,
    baseline_of,
    parse,
    render,
)
from shardlift.check.engine import FileReport
from shardlift.cli.config import Config, ConfigError
from shardlift.cli.input_files import read_bytes, reason

NAME = "shardlift-baseline.json"


@dataclass(frozen=True)
class BaselineFile:
    """A baseline and the file that it was read from, or will be written to."""

    path: Path
    baseline: Baseline
    codes: Sequence[str]  # of the rules that are selected

    def relative(self, path: str) -> str:
        """A path as the baseline names it, wherever the command was started."""
        return Path(os.path.relpath(path, self.path.parent)).as_posix()

    def new_only(self, reports: Sequence[FileReport]) -> tuple[FileReport, ...]:
        """The reports without the findings that are known."""
        return tuple(
            replace(report, findings=tuple(self.baseline.new(report.findings, self.relative)))
            for report in reports
        )

    def fixed(self, reports: Sequence[FileReport]) -> int:
        """How many known findings are gone."""
        return self.baseline.fixed(self._baseline_of(reports), self._coverage(reports))

    def write(self, reports: Sequence[FileReport]) -> int:
        """Make the findings of these reports the known ones; returns how many there are now."""
        updated = self.baseline.updated(self._baseline_of(reports), self._coverage(reports))
        try:
            replace_file(self.path, render(updated).encode("utf-8", "backslashreplace"))
        except OSError as error:
            raise ConfigError(f"{self.path} cannot be written: {reason(error)}") from error
        return updated.known.total()

    def _baseline_of(self, reports: Sequence[FileReport]) -> Baseline:
        findings = (finding for report in reports for finding in report.findings)
        return baseline_of(findings, self.relative)

    def _coverage(self, reports: Sequence[FileReport]) -> Coverage:
        checked = (self.relative(r.path) for r in reports if r.unreadable is None)
        folder = self.path.parent
        return Coverage(
            frozenset(checked), frozenset(self.codes), lambda path: (folder / path).exists()
        )


def find_baseline(config: Config, codes: Sequence[str], create: bool) -> BaselineFile | None:
    """The baseline in the root of the project; None if there is none, and none is to be made."""
    path = config.root / NAME
    if not path.exists():
        return BaselineFile(path, Baseline(), codes) if create else None
    try:
        return BaselineFile(path, parse(read_bytes(str(path)).decode()), codes)
    except (BaselineError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {reason(error)}") from error
