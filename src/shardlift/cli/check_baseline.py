"""The baseline of `check`: the findings that a project knows of, so that only new ones count.

A finding is recognised by its rule, its file and the text of its line: it stays known when lines
are added above it. If a file has the same line several times, the number of findings counts.
"""

import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from shardlift._files import replace_file
from shardlift.check.engine import FileReport
from shardlift.cli.config import Config, ConfigError
from shardlift.cli.files import read_bytes, reason
from shardlift.source.model import Finding

NAME = "shardlift-baseline.json"
_VERSION = 1
_LONGEST_TEXT = 200  # characters of a line


class FindingKey(NamedTuple):
    """What identifies a finding; `path` is relative to the folder of the baseline."""

    path: str
    code: str
    text: str


@dataclass(frozen=True)
class BaselineFile:
    """A baseline and the file that it was read from, or will be written to."""

    path: Path
    known: Counter[FindingKey]  # how often each finding is known
    codes: Sequence[str]  # of the rules that are selected

    def new_only(self, reports: Sequence[FileReport]) -> tuple[FileReport, ...]:
        """The reports without the findings that are known."""
        left = self.known.copy()

        def is_new(finding: Finding) -> bool:
            left[key := self._key(finding)] -= 1
            return left[key] < 0

        return tuple(replace(r, findings=tuple(filter(is_new, r.findings))) for r in reports)

    def fixed(self, reports: Sequence[FileReport]) -> int:
        """How many known findings are gone."""
        return (self._covered(reports) - self._there(reports)).total()

    def write(self, reports: Sequence[FileReport]) -> int:
        """Make the findings of these reports the known ones; returns how many there are now."""
        updated = self._there(reports) + (self.known - self._covered(reports))
        try:
            replace_file(self.path, _render(updated).encode("utf-8", "backslashreplace"))
        except OSError as error:
            raise ConfigError(f"{self.path} cannot be written: {reason(error)}") from error
        return updated.total()

    def _relative(self, path: str) -> str:
        """A path as the baseline names it, wherever the command was started."""
        return Path(os.path.relpath(path, self.path.parent)).as_posix()

    def _key(self, finding: Finding) -> FindingKey:
        text = finding.text.strip()[:_LONGEST_TEXT]
        return FindingKey(self._relative(finding.path), finding.code, text)

    def _there(self, reports: Sequence[FileReport]) -> Counter[FindingKey]:
        return Counter(self._key(finding) for report in reports for finding in report.findings)

    def _covered(self, reports: Sequence[FileReport]) -> Counter[FindingKey]:
        """What is known of the selected rules in files that were checked or do not exist now."""
        checked = {self._relative(report.path) for report in reports if report.unreadable is None}
        covered = {
            key: number
            for key, number in self.known.items()
            if key.code in self.codes
            and (key.path in checked or not (self.path.parent / key.path).exists())
        }
        return Counter(covered)


def find_baseline(config: Config, codes: Sequence[str], create: bool) -> BaselineFile | None:
    """The baseline in the root of the project; None if there is none, and none is to be made."""
    path = config.root / NAME
    if not path.exists():
        return BaselineFile(path, Counter(), codes) if create else None
    try:
        return BaselineFile(path, _parse(read_bytes(str(path)).decode()), codes)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {reason(error)}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigError(f"{path}: not a baseline of shardlift: {error!r}") from error


def _render(known: Counter[FindingKey]) -> str:
    """The text of the file, sorted, so that a diff shows what changed."""
    files: dict[str, list[dict[str, Any]]] = {}
    for key, number in sorted(known.items()):
        entry = {"code": key.code, "text": key.text, "count": number}
        files.setdefault(key.path, []).append(entry)
    return json.dumps({"version": _VERSION, "findings": files}, indent=2, ensure_ascii=False) + "\n"


def _parse(text: str) -> Counter[FindingKey]:
    document = json.loads(text)
    if document["version"] != _VERSION:
        raise ValueError(f"version {document['version']!r} of the format")
    return Counter(
        {
            FindingKey(str(path), str(entry["code"]), str(entry["text"])): int(entry["count"])
            for path, entries in document["findings"].items()
            for entry in entries
        }
    )
