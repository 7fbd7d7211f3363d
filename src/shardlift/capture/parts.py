"""The parts of a capture: each process of a job writes its own, beside the file of the whole.

A part is a capture itself, ``FILE.3`` for process 3. Parts are read as one capture, and merged into
FILE when all processes have ended: of one job there is FILE, or there are its parts.
"""

import contextlib
import os
import re
from collections.abc import Mapping
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
    """Read a capture, from its file or from the parts that have not been merged into it.

    What is left from an earlier job is ignored. A damaged part counts as missing, and
    `Capture.unseen` says so.
    """
    captures, damaged = _read_newest_job(os.fspath(record))
    _refuse_separate_programs(os.fspath(record), captures)
    whole = _merge(captures)
    return replace(whole, unseen=(*whole.unseen, *damaged))


def read_processes(record: str) -> dict[int, tuple[str, Capture]]:
    """The captures of the newest job in ``record`` and its parts, each with its file, by process.

    Only parts have the arrays of calls: a merged capture has none, and is refused.
    """
    captures, _ = _read_newest_job(record)
    _refuse_separate_programs(record, captures)
    for capture in captures.values():
        if len(capture.processes) > 1:
            raise CaptureError(
                f"{record} was merged from the records of {len(capture.processes)} processes, and "
                "has none of the arrays of their calls. With `shardlift run --record-inputs BYTES` "
                f"each process leaves its own beside it, in {part_path(record, 0)} and so on"
            )
    indices = {path: [process.index for process in c.processes] for path, c in captures.items()}
    return {(indices[path] or [0])[0]: (path, capture) for path, capture in captures.items()}


def merge_parts(record: str) -> Capture:
    """Merge the parts into ``record`` and remove them, if all processes have ended.

    Otherwise they stay, and are read together. Returns the whole.
    """
    captures, _ = _read_newest_job(record)
    whole = read_whole(record)
    if record not in captures and not whole.missing and all(p.ended for p in whole.processes):
        write(whole, record)
        for path in captures:
            with contextlib.suppress(OSError):
                os.remove(path)
    return whole


def _merge(captures: Mapping[str, Capture]) -> Capture:
    if len(captures) == 1:
        return next(iter(captures.values()))
    from shardlift.capture.merge import merge  # needs NumPy, which reading one file does not

    return merge(captures.values())


def _read_newest_job(record: str) -> tuple[dict[str, Capture], list[str]]:
    """The files of the newest job, and what is wrong with files that cannot be read."""
    paths = [*find_parts(record).values()]
    if os.path.exists(record) or not paths:
        paths.append(record)
    captures, damaged = {}, []
    for path in paths:
        try:
            captures[path] = read(path)
        except CaptureError as error:
            damaged.append(str(error))
        except OSError as error:
            if path == record:
                raise
            damaged.append(f"{path} cannot be read: {error.strerror}")
    if not captures:
        raise CaptureError(damaged[0])
    newest = max(captures, key=lambda path: captures[path].started)
    job = captures[newest].job
    whole = captures.get(record)
    if whole is not None and whole.job == job and (job or newest == record):
        return {record: whole}, damaged
    parts = {path: part for path, part in captures.items() if part.job == job and path != record}
    return parts, damaged


def _refuse_separate_programs(record: str, captures: Mapping[str, Capture]) -> None:
    """Refuse parts of programs that a scheduler started side by side, without a job of JAX."""
    alone = [path for path, part in captures.items() if all(p.count == 1 for p in part.processes)]
    if len(alone) > 1:
        more = f" and {len(alone) - 4} more" if len(alone) > 4 else ""
        raise CaptureError(
            f"{record} has {len(alone)} parts of programs that ran on their own: "
            f"jax.distributed.initialize was not called. Read one of them: "
            f"{', '.join(alone[:4])}{more}"
        )
