"""The report as JSON, with the same numbers and findings as the other formats."""

import dataclasses
import json
from typing import Any

from shardlift.report.numbers import moved_bytes, moving_share, wasted_bytes
from shardlift.report.view import SiteView, View

SCHEMA, VERSION = "shardlift.report", 1


def render(view: View) -> str:
    """Indented JSON; times are in seconds."""
    tree = {
        "schema": SCHEMA,
        "version": VERSION,
        "capture": view.path,
        "headline": view.headline,
        "moving_share": moving_share(view.capture),
        "decisions": view.decisions,
        "seconds": view.capture.seconds,
        "sites": [_site(site) for site in view.sites],
        "unseen": list(view.unseen),
    }
    return json.dumps(tree, indent=2, ensure_ascii=False)


def _site(view: SiteView) -> dict[str, Any]:
    site, times = view.site, view.site.times
    return {
        "file": site.file,
        "line": site.line,
        "function": site.function,
        "calls": site.calls,
        "processes": list(site.processes),
        "p50": times.call.quantile(0.5),
        "p95": times.call.quantile(0.95),
        "seconds": view.parts._asdict(),
        "compiled": site.compile_count,
        "compiling": times.compiling.total,
        "moved_bytes_per_call": moved_bytes(site),
        "wasted_bytes": wasted_bytes(site),
        "findings": [dataclasses.asdict(finding) for finding in view.findings],
    }
