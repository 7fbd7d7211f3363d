"""The lines of a notebook that runs: which cell each is in, in tracebacks too."""

import sys
import traceback
from collections.abc import Iterator
from types import TracebackType

from shardlift.recording.caller import shown
from shardlift.source.notebook import Cells

_notebooks: dict[str, Cells] = {}  # path, as code objects have it


def note_notebook(path: str, cells: Cells) -> None:
    """Know the cells of a notebook, whose joined text is compiled under this path."""
    _notebooks[path] = cells


def cell_of(path: str, line: int) -> tuple[int, int] | None:
    """The cell of a line of the joined text, and the line in it; None outside of notebooks."""
    cells = _notebooks.get(path)
    return cells.locate(line) if cells is not None else None


def first_lines() -> dict[str, tuple[tuple[int, int], ...]]:
    """Of each notebook the numbers of its code cells, and where each begins in the joined text."""
    return {
        shown(path): tuple(zip(cells.numbers, cells.first_lines, strict=True))
        for path, cells in _notebooks.items()
    }


def print_traceback(
    kind: type[BaseException], error: BaseException, frames: TracebackType | None
) -> None:
    """Print a traceback as python does, with the cell and the line in the cell."""
    whole = traceback.TracebackException(kind, error, frames)
    for frame in _frames(whole):
        _ = frame.line  # the text is read by the line of the joined text
        place = cell_of(frame.filename, frame.lineno or 0)
        if place is not None:
            shift = place[1] - (frame.lineno or 0)
            frame.filename, frame.lineno = f"{frame.filename}: cell {place[0]}", place[1]
            if frame.end_lineno is not None:
                frame.end_lineno += shift
    print("".join(whole.format()), file=sys.stderr, end="")


def _frames(whole: traceback.TracebackException) -> Iterator[traceback.FrameSummary]:
    yield from whole.stack
    for other in (whole.__cause__, whole.__context__, *(whole.exceptions or ())):
        if other is not None:
            yield from _frames(other)
