"""A baseline: the findings that a project knows of, so that `check` reports only new ones.

A finding is recognised by its rule, its file and the text of its line: it stays known when lines
are added above it. If a file has the same line several times, the number of findings counts.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, NamedTuple

VERSION = 1


class BaselineError(ValueError):
    """A file is not a baseline; the message says why."""


class FindingKey(NamedTuple):
    """What identifies a finding; `path` is relative to the folder of the baseline."""

    path: str
    code: str
    text: str


def render(known: Counter[FindingKey]) -> str:
    """The text of a baseline file, sorted, so that a diff shows what changed."""
    files: dict[str, list[dict[str, Any]]] = {}
    for key, number in sorted(known.items()):
        entry = {"code": key.code, "text": key.text, "count": number}
        files.setdefault(key.path, []).append(entry)
    return json.dumps({"version": VERSION, "findings": files}, indent=2, ensure_ascii=False) + "\n"


def parse(text: str) -> Counter[FindingKey]:
    """How often each finding is known, by the text of a baseline file."""
    try:
        document = json.loads(text)
        if document["version"] != VERSION:
            raise BaselineError(f"version {document['version']!r} of the format is not known")
        return Counter(
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
