"""Notebooks: edits made cell by cell. The JSON around them stays as it was, byte by byte."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import zip_longest
from typing import Any, NamedTuple

from shardlift.source.edits import apply_edits
from shardlift.source.model import Edit, Span
from shardlift.source.notebook import python_of_cell, source_of_cell
from shardlift.source.scopes import grouped
from shardlift.source.statements import ON_COLAB

_SPACE = " \t\r\n"
# A heading of cells that set the TPU of Colab up.
_OF_TPU = re.compile(r"#.*(colab|tpu).*", re.IGNORECASE)
# What has to run before JAX is imported, or before its first array.
_SETS_UP = re.compile(r"\benviron\b|\bputenv\b|^%(set_)?env\b|\bconfig\.update\b", re.M)


class _Part(NamedTuple):
    """A value of the document: where its text starts and ends."""

    value: Any
    start: int
    end: int


def edit_cells(raw: str, edits: Iterable[Edit], empties: bool = True) -> str:
    """A notebook with edits made in its cells, in those that they empty only if `empties`."""
    by_cell, cells = grouped(edits, lambda edit: edit.span.cell or 0), _cells(raw)
    for number in sorted(by_cell, reverse=True):  # from the end, so that the places before stay
        cell = cells[number - 1]
        inside = [replace(e, span=replace(e.span, cell=None)) for e in by_cell[number]]
        text = apply_edits(source_of_cell(cell.value), inside)
        if not empties and not text.strip():
            continue
        source = _members(raw, cell.start)["source"]
        raw = raw[: source.start] + _source(raw, source, text) + raw[source.end :]
    return raw


def insert_cell(raw: str, before: int, text: str) -> str:
    """A notebook with a code cell put in front of the cell of a number, counted from 1."""
    cells = _cells(raw)
    cell: dict[str, Any] = {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": [],
        "source": text.rstrip("\n").splitlines(keepends=True),
    }
    if any("id" in other.value for other in cells):
        cell = {"cell_type": "code", "execution_count": None, "id": "per-device", **cell}
    at = cells[before - 1].start
    margin = raw[len(raw[:at].rstrip(_SPACE)) : at]
    key = raw[at + 1 : _next(raw, at + 1)]
    indent = len(key.lstrip("\r\n")) - len(margin.lstrip("\r\n"))
    lines = json.dumps(cell, indent=indent if "\n" in margin else None, ensure_ascii=_ascii(raw))
    return f"{raw[:at]}{lines.replace(chr(10), margin or chr(10))},{margin or ' '}{raw[at:]}"


def insert_block(raw: str, at: tuple[int, int], text: str) -> str:
    """A notebook with code in front of a line of a cell, counted from 1.

    It is a cell of its own, unless what is above it in its cell sets up the environment or JAX.
    """
    number, line = at
    above = _code(_cells(raw)[number - 1].value).splitlines()[: line - 1]
    if not _SETS_UP.search("\n".join(above)):
        return insert_cell(raw, number, text)
    block = "\n".join(["", *text.strip("\n").splitlines(), "", "", ""])
    return edit_cells(raw, [Edit(Span(line, 0, line, 0, number), block)])


def words_of_magics(raw: str) -> set[str]:
    """The words of shell lines and magics, which may use what Python has."""
    codes = [_code(cell.value) for cell in _cells(raw)]
    pairs = ((code.splitlines(), python_of_cell(code).splitlines()) for code in codes)
    lines = (line for pair in pairs for line, python in zip_longest(*pair) if line != python)
    return {word for line in lines for word in re.findall(r"\w+", line or "")}


def emptied_cells(before: str, raw: str) -> list[int]:
    """The numbers of the cells whose code is all taken out by edits, but for the title of a TPU.

    A heading of nothing else goes with them.
    """
    pairs = zip(_cells(before), _cells(raw), strict=True)
    codes = enumerate(((_code(old.value), _code(new.value)) for old, new in pairs), start=1)
    emptied = [n for n, (old, new) in codes if old != new and not ON_COLAB.sub("", new).strip()]
    texts = ["" if _code(c.value) else source_of_cell(c.value).strip() for c in _cells(raw)]
    for number in emptied.copy():
        below = [n for n in range(number, len(texts)) if n + 1 not in emptied]
        is_all = not below or texts[below[0]].startswith("#")
        if number > 2 and is_all and _OF_TPU.fullmatch(texts[number - 2]):
            emptied.append(number - 1)
    return emptied


def without_cells(raw: str, numbers: Iterable[int]) -> str:
    """A notebook without the cells of some numbers, counted from 1."""
    for number in sorted(numbers, reverse=True):
        cells = _cells(raw)
        cell, above, below = cells[number - 1], cells[: number - 1], cells[number:]
        start = cell.start if below or not above else above[-1].end
        raw = raw[:start] + raw[below[0].start if below else cell.end :]
    return raw


def _code(cell: dict[str, Any]) -> str:
    return source_of_cell(cell) if cell.get("cell_type") == "code" else ""


def _source(raw: str, old: _Part, text: str) -> str:
    """The JSON of a cell's new text, laid out as the old one; lines that stay are not touched."""
    if not isinstance(old.value, list):
        return _to_json(raw, text)
    same = {line.value: raw[line.start : line.end] for line in _parts(raw, old.start)}
    opening = raw[old.start + 1 : old.end]
    gap = opening[: len(opening) - len(opening.lstrip(_SPACE))]
    last = raw[len(raw[: old.end - 1].rstrip(_SPACE)) : old.end - 1]
    lines = text.splitlines(keepends=True)
    written = [same.get(line) or _to_json(raw, line) for line in lines]
    return f"[{gap}{f',{gap or chr(32)}'.join(written)}{last}]" if lines else "[]"


def _to_json(raw: str, text: str) -> str:
    """A string as JSON, escaped as the notebook escapes others."""
    written = json.dumps(text, ensure_ascii=_ascii(raw))
    for character in "<>&" if "\\u003c" in raw or "\\u003e" in raw else "":  # as Colab writes it
        written = written.replace(character, f"\\u{ord(character):04x}")
    return written


def _ascii(raw: str) -> bool:
    """Whether other characters than ASCII are escaped."""
    return raw.isascii() and "\\u" in raw


def _cells(raw: str) -> list[_Part]:
    return list(_parts(raw, _members(raw, _next(raw, 0))["cells"].start))


def _members(raw: str, at: int) -> dict[str, _Part]:
    """The values of the object at a place of the text, by their keys."""
    parts = _parts(raw, at)
    return {key.value: value for key, value in zip(parts, parts, strict=True)}


def _parts(raw: str, at: int) -> Iterator[_Part]:
    """The values of the list at a place of the text; the keys and values of an object."""
    at = _next(raw, at + 1)
    while raw[at] not in "]}":
        value, end = json.JSONDecoder().raw_decode(raw, at)
        yield _Part(value, at, end)
        at = _next(raw, end)
        at = _next(raw, at + 1) if raw[at] in ",:" else at


def _next(raw: str, at: int) -> int:
    """The next place that is not white space."""
    while raw[at] in _SPACE:
        at += 1
    return at
