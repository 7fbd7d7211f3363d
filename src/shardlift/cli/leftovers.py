"""The leftovers of a migration: found in the files, and listed below its summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from shardlift.cli.files import find_files
from shardlift.migrate.leftovers import Leftover, LeftoverKind, in_document, in_python
from shardlift.migrate.results import Migration
from shardlift.source.model import Kind
from shardlift.source.text import UnreadableError, read_source

_DOCUMENTS = (".md", ".rst")
_SHOWN = 10
_WORDS = {
    LeftoverKind.MOCK: ("mock of jax.pmap, which the new code does not call", "mocks of jax.pmap"),
    LeftoverKind.COMMENT: ("comment", "comments"),
    LeftoverKind.DOCSTRING: ("line of a docstring", "lines of docstrings"),
    LeftoverKind.DOCUMENT: ("line of a document", "lines of documents"),
}


def find_leftovers(
    migration: Migration,
    paths: tuple[str, ...],
    files: Sequence[str],
    read: Callable[[str], bytes],
) -> list[Leftover]:
    """What still speaks of pmap in the files, if a pmap of theirs was rewritten."""
    mapped = (Kind.SITE, Kind.VALUE)
    if not any(change.kind in mapped for file in migration.files for change in file.rewritten):
        return []
    new = {file.path: file.after for file in migration.files}
    written = {file.path for file in migration.helper_modules}
    python = (path for path in files if path.endswith(".py") and path not in written)
    found: list[Leftover] = []
    for path, text in _texts(python, read):
        lines = {line.strip() for line in text.splitlines()}
        # Not those of a helper that the migration put into the file.
        found += [one for one in in_python(path, new.get(path, text)) if one.text in lines]
    for path, text in _texts(find_files(paths, suffixes=_DOCUMENTS), read):
        found += in_document(path, text)
    return found


def _texts(paths: Iterator[str], read: Callable[[str], bytes]) -> Iterator[tuple[str, str]]:
    """The paths whose texts say pmap, with their texts."""
    for path in paths:
        try:
            content = read(path)
            if b"pmap" in content:
                is_python = path.endswith(".py")
                text = read_source(path, content).text if is_python else content.decode()
                yield path, text
        except (OSError, UnreadableError, UnicodeDecodeError):
            continue


def sentences(leftovers: Sequence[Leftover], verbose: bool) -> list[str]:
    """The lines for the terminal: mocks first, as they break tests; the others in short."""
    if not leftovers:
        return []
    ranked = sorted(leftovers, key=lambda one: list(LeftoverKind).index(one.kind))
    shown = ranked if verbose else ranked[:_SHOWN]
    lines = [f"{one.path}:{one.line}: still says pmap ({one.kind}): {one.text}" for one in shown]
    counts = Counter(one.kind for one in leftovers)
    parts = [f"{n} {_WORDS[place][n > 1]}" for place in LeftoverKind if (n := counts[place])]
    more = "" if len(shown) == len(ranked) else " (--verbose lists all)"
    return [*lines, f"Still about pmap, for you to look at: {', '.join(parts)}{more}."]
