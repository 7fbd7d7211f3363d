"""What recorded runs say of the sites of a document."""

from __future__ import annotations

import ast
import glob
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from shardlift.capture.files import CaptureError, read
from shardlift.capture.schema import Capture, SiteFacts
from shardlift.capture.text_digest import digest
from shardlift.cli.config import Config
from shardlift.cli.lsp.documents import Document
from shardlift.report.numbers import count, parts_of, percent, seconds, share
from shardlift.source.file import File
from shardlift.source.project import Project
from shardlift.source.sites import Role, Site
from shardlift.source.text import Source, UnreadableError

STALE = ", before the last edit"


@dataclass(frozen=True)
class Fact:
    """A sentence about the site on a line."""

    line: int
    text: str


def facts_of(document: Document, config: Config, captures: Iterable[str]) -> list[Fact]:
    """One fact per site that a capture knows; the newest capture counts."""
    if document.code is not None:
        return []
    facts: dict[int, Fact] = {}
    for path in _newest_first(config, captures):
        try:
            capture = read(path)
        except (OSError, CaptureError):
            continue
        for fact in _facts(document, config, capture):
            facts.setdefault(fact.line, fact)
    return sorted(facts.values(), key=lambda fact: fact.line)


def _newest_first(config: Config, captures: Iterable[str]) -> list[str]:
    # Wildcards in names of files, not of folders: a repository may have links in circles.
    places = (os.path.split(os.path.join(config.root, pattern)) for pattern in captures)
    patterns = (os.path.join(glob.escape(folder), name) for folder, name in places)
    found = {path for pattern in patterns for path in glob.glob(pattern)}
    return sorted(found, key=os.path.getmtime, reverse=True)


def _facts(document: Document, config: Config, capture: Capture) -> Iterator[Fact]:
    def is_own(file: str) -> bool:
        return os.path.realpath(os.path.join(config.root, file)) == os.path.realpath(document.path)

    recorded = [site for site in capture.sites if is_own(site.file) and site.calls]
    if not recorded:
        return
    digests = {known for file, known in capture.sources.items() if is_own(file)}
    if digest(document.text(None)) in digests:
        yield from (Fact(site.line, sentence(site)) for site in recorded)
        return
    lines = _lines_by_function(document)
    for site in recorded:
        if len(lines.get(site.function, [])) == 1:
            yield Fact(lines[site.function][0], sentence(site) + STALE)


def sentence(site: SiteFacts) -> str:
    """``8 devices, 1.5 ms, 32 % moving data, 200 calls``."""
    parts = parts_of(site)
    said = [count(max(len(site.devices), site.axis_size), "device")]
    if site.times.call.count:
        said.append(seconds(site.times.call.quantile(0.5)))
        said.append(f"{percent(share(parts.moving_data, parts.total))} moving data")
    said.append(count(site.calls, "call"))
    return ", ".join(said)


def _lines_by_function(document: Document) -> dict[str, list[int]]:
    """The lines of the pmap sites by the name of the mapped function."""
    try:
        file = Project.of(Source(document.path, document.text(None))).file(document.path)
    except UnreadableError:
        return {}
    lines: dict[str, list[int]] = {}
    for site in file.sites:
        if site.role is Role.MAP:
            lines.setdefault(_function(file, site), []).append(file.span(site.node).line)
    return lines


def _function(file: File, site: Site) -> str:
    known = site.function
    if known is not None and isinstance(known.node, ast.FunctionDef):
        return known.node.name
    return file.text(site.operand) if isinstance(site.operand, ast.Name) else ""
