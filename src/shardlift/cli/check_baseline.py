"""The baseline file of `check`: where it is, and what it leaves of a report."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from shardlift._files import replace_file
from shardlift.check.baseline import BaselineError, FindingKey, parse, render
from shardlift.check.engine import FileReport
from shardlift.cli.config import Config, ConfigError
from shardlift.cli.files import read_bytes, reason
from shardlift.source.model import Finding

NAME = "shardlift-baseline.json"


@dataclass(frozen=True)
class BaselineFile:
    """A baseline and the file that it was read from, or will be written to."""

    path: Path
    known: Counter[FindingKey]  # how often each finding is known
    codes: Sequence[str]  # of the rules that are selected

    def new_only(self, reports: Sequence[FileReport]) -> tuple[FileReport, ...]:
        """The reports without the findings that are known."""
        left = self.known.copy()
        return tuple(
            replace(report, findings=tuple(self._new(report.findings, left))) for report in reports
        )

    def fixed(self, reports: Sequence[FileReport]) -> int:
        """How many known findings are gone."""
        checked = self._checked(reports)
        gone = self.known - self._found(reports)
        return sum(number for key, number in gone.items() if self._is_covered(key, checked))

    def write(self, reports: Sequence[FileReport]) -> int:
        """Make the findings of these reports the known ones; returns how many there are now."""
        checked = self._checked(reports)
        kept = {k: number for k, number in self.known.items() if not self._is_covered(k, checked)}
        updated = self._found(reports) + Counter(kept)
        try:
            replace_file(self.path, render(updated).encode("utf-8", "backslashreplace"))
        except OSError as error:
            raise ConfigError(f"{self.path} cannot be written: {reason(error)}") from error
        return updated.total()

    def _relative(self, path: str) -> str:
        """A path as the baseline names it, wherever the command was started."""
        return Path(os.path.relpath(path, self.path.parent)).as_posix()

    def _key(self, finding: Finding) -> FindingKey:
        return FindingKey(self._relative(finding.path), finding.code, finding.text)

    def _new(self, findings: Sequence[Finding], left: Counter[FindingKey]) -> Iterator[Finding]:
        for finding in findings:
            key = self._key(finding)
            if left[key] > 0:
                left[key] -= 1
            else:
                yield finding

    def _found(self, reports: Sequence[FileReport]) -> Counter[FindingKey]:
        return Counter(self._key(finding) for report in reports for finding in report.findings)

    def _checked(self, reports: Sequence[FileReport]) -> set[str]:
        return {self._relative(report.path) for report in reports if report.unreadable is None}

    def _is_covered(self, key: FindingKey, checked: set[str]) -> bool:
        """Whether the rule was selected, and the file was checked or does not exist any more."""
        is_there = (self.path.parent / key.path).exists
        return key.code in self.codes and (key.path in checked or not is_there())


def find_baseline(config: Config, codes: Sequence[str], create: bool) -> BaselineFile | None:
    """The baseline in the root of the project; None if there is none, and none is to be made."""
    path = config.root / NAME
    if not path.exists():
        return BaselineFile(path, Counter(), codes) if create else None
    try:
        return BaselineFile(path, parse(read_bytes(str(path)).decode()), codes)
    except (BaselineError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {reason(error)}") from error
