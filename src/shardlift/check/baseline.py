"""A baseline: the findings that a project knows of, so that `check` reports only new ones.

A finding is recognised by its rule, its file and the text of its line: it stays known when lines
are added above it. If a file has the same line several times, the number of findings counts.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from shardlift.source.model import Finding

VERSION = 1


class BaselineError(ValueError):
    """A file is not a baseline; the message says why."""


class FindingKey(NamedTuple):
    """What identifies a finding; `path` is relative to the folder of the baseline."""

    path: str
    code: str
    text: str


@dataclass(frozen=True)
class Coverage:
    """What a run looked at."""

    paths: frozenset[str]
    codes: frozenset[str]
    exists: Callable[[str], bool]

    def includes(self, key: FindingKey) -> bool:
        """Whether the rule was selected, and the file was checked or does not exist any more."""
        return key.code in self.codes and (key.path in self.paths or not self.exists(key.path))


@dataclass(frozen=True)
class Baseline:
    """How often each finding is known."""

    known: Counter[FindingKey] = field(default_factory=Counter)

    def new(self, findings: Iterable[Finding], relative: Callable[[str], str]) -> list[Finding]:
        """The findings that are not known, in order. `relative` makes the path of a key."""
        left = self.known.copy()
        new = []
        for finding in findings:
            key = key_of(finding, relative)
            if left[key] > 0:
                left[key] -= 1
            else:
                new.append(finding)
        return new

    def fixed(self, found: Baseline, coverage: Coverage) -> int:
        """How many known findings in covered files are no longer found."""
        gone = self.known - found.known
        return sum(number for key, number in gone.items() if coverage.includes(key))

    def updated(self, found: Baseline, coverage: Coverage) -> Baseline:
        """What was found, and the known findings in files that were not covered."""
        kept = {key: number for key, number in self.known.items() if not coverage.includes(key)}
        return Baseline(found.known + Counter(kept))


def key_of(finding: Finding, relative: Callable[[str], str]) -> FindingKey:
    """What identifies a finding."""
    return FindingKey(relative(finding.path), finding.code, finding.text)


def baseline_of(findings: Iterable[Finding], relative: Callable[[str], str]) -> Baseline:
    """The baseline in which all these findings are known."""
    return Baseline(Counter(key_of(finding, relative) for finding in findings))


def render(baseline: Baseline) -> str:
    """The text of a baseline file, sorted, so that a diff shows what changed."""
    files: dict[str, list[dict[str, Any]]] = {}
    for key, number in sorted(baseline.known.items()):
        entry = {"code": key.code, "text": key.text, "count": number}
        files.setdefault(key.path, []).append(entry)
    return json.dumps({"version": VERSION, "findings": files}, indent=2, ensure_ascii=False) + "\n"


def parse(text: str) -> Baseline:
    """Read the text of a baseline file."""
    try:
        document = json.loads(text)
        if document["version"] != VERSION:
            raise BaselineError(f"version {document['version']!r} of the format is not known")
        known = Counter(
            {
                FindingKey(str(path), str(entry["code"]), str(entry["text"])): int(entry["count"])
                for path, entries in document["findings"].items()
                for entry in entries
            }
        )
    except BaselineError:
        raise
    except RecursionError:
        raise BaselineError("nested too deeply") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BaselineError(f"not a baseline of shardlift: {error!r}") from error
    return Baseline(known)
