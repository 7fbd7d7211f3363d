"""Captures for tests, as runs of given texts would have written them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from shardlift.capture.schema import Capture
from shardlift.capture.text_digest import digest


def dated(capture: Capture | None, texts: Mapping[str, str]) -> list[Capture]:
    """The capture of a run of these texts; what it says itself of a text stays. [] if None."""
    if capture is None:
        return []
    known = {path.rpartition("/")[2] for path in capture.sources}
    new = {p: text for p, text in texts.items() if p.rpartition("/")[2] not in known}
    sources = {path: digest(text) for path, text in new.items()}
    return [dataclasses.replace(capture, sources=sources | capture.sources)]
