"""The sites whose numbers are those of pmap, as `verify` or `migrate --verify` wrote them."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shardlift.capture.text_digest import digest
from shardlift.cli.config import Config, ConfigError
from shardlift.cli.input_files import read_bytes, reason
from shardlift.source.model import Span

if TYPE_CHECKING:  # it needs NumPy
    from shardlift.verify.compare.verdicts import Outcome

SAME = ("identical", "close")


@dataclass(frozen=True)
class Verified:
    """Lines of verified sites by file, and digests of the files as they were verified."""

    lines: dict[str, set[int]] = field(default_factory=dict)
    digests: dict[str, set[str]] = field(default_factory=dict)

    def covers(self, path: str, site: Span) -> bool:
        """Whether a site was verified, and its file has not changed since."""
        lines = self.lines.get(os.path.realpath(path), set())
        on_it = any(site.line <= line <= site.end_line for line in lines)
        return site.cell is None and on_it and not self.is_stale(path)

    def is_stale(self, path: str) -> bool:
        """Whether a file was verified and has changed since."""
        known = self.digests.get(os.path.realpath(path))
        return known is not None and digest_of(path) not in known


def read_verified(config: Config, given: Sequence[str]) -> Verified:
    """The files that a command was given, or those that the project names."""
    patterns = given or [str(config.root / pattern) for pattern in config.verified]
    verified = Verified()
    for pattern in patterns:
        paths = sorted(glob.glob(pattern, recursive=True))
        if not paths and given:
            raise ConfigError(f"{pattern}: no such file")
        for path in paths:
            _add(verified, _document(path), config.root)
    return verified


def _document(path: str) -> Any:
    try:
        document = json.loads(read_bytes(path))
        document = document.get("verify", document)  # of `migrate --verify`
        return document["sites"], document["sources"]
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {reason(error)}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        message = (
            f"{path} is not what `shardlift verify` or `shardlift migrate --verify` of this "
            "version writes with --format json"
        )
        raise ConfigError(message) from None


def _add(verified: Verified, document: Any, root: Path) -> None:
    sites, sources = document
    for file, known in sources.items():
        verified.digests.setdefault(os.path.realpath(root / file), set()).add(known)
    for site in sites:
        after = site["after"]
        if site["verdict"] in SAME and after is not None:
            lines = verified.lines.setdefault(os.path.realpath(root / after["file"]), set())
            lines.add(after["line"])


def sources_of(outcome: Outcome) -> dict[str, str]:
    """The digests of the files after, as they were compared."""
    return digests_of(site.after.file for site in outcome.sites if site.after is not None)


def digests_of(files: Iterable[str]) -> dict[str, str]:
    """The digests of the files that can be read."""
    found = {file: digest_of(file) for file in sorted(set(files))}
    return {file: known for file, known in found.items() if known is not None}


def digest_of(path: str) -> str | None:
    """The digest of a file; None if it cannot be read."""
    try:
        return digest(read_bytes(path).decode(errors="surrogateescape"))
    except OSError:
        return None
