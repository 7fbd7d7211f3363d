"""Tracebacks without the frames of this package, as plain python shows them."""

import types


def without_our_frames(error: BaseException | None) -> None:
    """Remove the frames that plain python does not have from an error's traceback.

    These are the first frames, which ran the program, and the frames of a pmap. The errors that
    led to this one are changed in the same way.
    """
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        error = waiting.pop()
        if error is None or id(error) in seen:
            continue
        seen.add(id(error))
        frames = error.__traceback__
        runner = ("shardlift.", "runpy", "click.")
        while frames and frames.tb_frame.f_globals.get("__name__", "").startswith(runner):
            frames = frames.tb_next
        error.__traceback__ = without_package(frames)
        waiting += [error.__cause__, error.__context__, *getattr(error, "exceptions", ())]


def without_package(frames: types.TracebackType | None) -> types.TracebackType | None:
    """The frames outside this package."""
    kept: list[types.TracebackType] = []
    while frames is not None:
        if not frames.tb_frame.f_globals.get("__name__", "").startswith("shardlift."):
            kept.append(frames)
        frames = frames.tb_next
    chain: types.TracebackType | None = None
    for frame in reversed(kept):
        chain = types.TracebackType(chain, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return chain
