"""The parts of a capture: each process of a job writes its own, beside the file of the whole.

A part is a capture itself, ``FILE.3`` for process 3. Parts are merged into one capture when the
job ends, and whenever FILE is read.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Sequence
from dataclasses import replace

from shardlift.capture.files import CaptureError, read, write
from shardlift.capture.schema import Capture


def part_path(record: str, process: int) -> str:
    """The file of one process."""
    return f"{record}.{process}"


def find_parts(record: str) -> dict[int, str]:
    """The parts that are there, by process."""
    folder, name = os.path.split(record)
    try:
        names = os.listdir(folder or ".")
    except OSError:
        return {}
    pattern = re.compile(rf"{re.escape(name)}\.(0|[1-9]\d*)")
    processes = sorted(int(match[1]) for text in names if (match := pattern.fullmatch(text)))
    return {process: part_path(record, process) for process in processes}


def read_whole(record: str | os.PathLike[str]) -> Capture:
    """Read a capture, together with parts of it that have not been merged.

    Parts that are left from an earlier job are ignored. A damaged part counts as missing, and
    `Capture.unseen` says so.
    """
    path = os.fspath(record)
    parts, damaged = _read_parts(path)
    whole = [read(path)] if os.path.exists(path) else []
    if not whole and not parts:
        if damaged:
            raise CaptureError(damaged[0])
        return read(path)  # raises the error of a missing file
    merged = _join(path, whole, parts)
    return replace(merged, unseen=(*merged.unseen, *damaged))


def read_processes(record: str) -> dict[int, tuple[str, Capture]]:
    """The captures of the newest job in ``record`` and its parts, each with its file, by process.

    Only parts have the arrays of calls: a merged capture has none, and is refused.
    """
    parts, damaged = _read_parts(record)
    whole = [read(record)] if os.path.exists(record) or not (parts or damaged) else []
    if not whole and not parts:
        raise CaptureError(damaged[0])
    newest = _of_newest_job([*whole, *parts.values()])
    present = {k: (part_path(record, k), part) for k, part in parts.items() if part in newest}
    if present:
        _refuse_separate_programs(record, {k: part for k, (_, part) in present.items()})
        return present
    (capture,) = newest
    if len(capture.processes) > 1:
        raise CaptureError(
            f"{record} was merged from the records of {len(capture.processes)} processes, and has "
            "none of the arrays of their calls. With `shardlift run --record-inputs BYTES` each "
            f"process leaves its own beside it, in {part_path(record, 0)} and so on"
        )
    return {capture.processes[0].index if capture.processes else 0: (record, capture)}


def merge_parts(record: str, *, running: bool = False) -> Capture:
    """Merge the parts into ``record``, remove them, and return the whole.

    With ``running``, processes that have not ended may write their parts again: these are left
    beside the file.
    """
    final = {
        k: part
        for k, part in _read_parts(record)[0].items()
        if not running or all(process.ended for process in part.processes)
    }
    if final:
        whole = []  # that other parts of the job were merged into; another file is replaced
        with contextlib.suppress(OSError, CaptureError):
            whole = [capture for capture in [read(record)] if capture.job]
        write(_join(record, whole, final), record)
        for process in final:
            with contextlib.suppress(OSError):
                os.remove(part_path(record, process))
    return read_whole(record)


def _join(record: str, whole: Sequence[Capture], parts: dict[int, Capture]) -> Capture:
    captures = _of_newest_job([*whole, *parts.values()])
    job = captures[0].job
    _refuse_separate_programs(record, {k: part for k, part in parts.items() if part.job == job})
    # The merged capture of a job comes first; of jobs without a name, the newest one.
    captures.sort(key=lambda c: (-len(c.processes) if c.job else 0, -c.started))
    chosen: list[Capture] = []
    taken: set[int] = set()
    for capture in captures:
        processes = {process.index for process in capture.processes}
        if not taken & processes:
            chosen.append(capture)
            taken |= processes
    if len(chosen) == 1:
        return chosen[0]
    from shardlift.capture.merge import merge  # needs NumPy, which reading one file does not

    return merge(chosen)


def _read_parts(record: str) -> tuple[dict[int, Capture], list[str]]:
    """The parts by process, and what is wrong with those that cannot be read."""
    parts, damaged = {}, []
    for process, path in find_parts(record).items():
        try:
            parts[process] = read(path)
        except CaptureError as error:
            damaged.append(str(error))
        except OSError as error:
            damaged.append(f"{path} cannot be read: {error.strerror}")
    return parts, damaged


def _of_newest_job(captures: Sequence[Capture]) -> list[Capture]:
    newest = max(captures, key=lambda capture: capture.started)
    return [capture for capture in captures if capture.job == newest.job]


def _refuse_separate_programs(record: str, parts: dict[int, Capture]) -> None:
    """Refuse parts of programs that a scheduler started side by side, without a job of JAX."""
    alone = [k for k, part in parts.items() if all(p.count == 1 for p in part.processes)]
    if len(alone) > 1:
        names = ", ".join(part_path(record, k) for k in alone[:4])
        more = f" and {len(alone) - 4} more" if len(alone) > 4 else ""
        raise CaptureError(
            f"{record} has {len(alone)} parts of programs that ran on their own: "
            f"jax.distributed.initialize was not called. Read one of them: {names}{more}"
        )
