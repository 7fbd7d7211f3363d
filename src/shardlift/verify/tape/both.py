"""Facts and values in one capture: ``shardlift run --record FILE --record-inputs BYTES``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shardlift.recording.recorder import Recorder
from shardlift.verify.tape.hooks import Hooks
from shardlift.verify.tape.site_tape import Tape, joined


class Both:
    """A recorder whose pmapped calls are on tape as well. Times include the taping."""

    def __init__(self, recorder: Recorder, keep: int) -> None:
        self.recorder = recorder
        self.hooks = Hooks(Tape(keep, keep))

    def pmap(self, pmap: Callable[..., Any]) -> Callable[..., Any]:
        """The given pmap, recorded and on tape."""
        return self.recorder.pmap(self.hooks.pmap(pmap))

    def jit(self, jit: Callable[..., Any]) -> Callable[..., Any]:
        """The given jit, recorded."""
        return self.recorder.jit(jit)

    def read(self, array: Any, how: str, nbytes: int) -> None:
        """An output was read."""
        self.recorder.read(array, how, nbytes)

    def used(self, name: str) -> None:
        """A restored name was used."""
        self.recorder.used(name)

    def write(self, path: str) -> None:
        """The facts with the samples, and the values beside them."""
        capture, tape = self.recorder.write(path), self.hooks.tape
        if capture is not None:
            tape.write(path, joined(capture, tape.capture()))

    def summary(self) -> str:
        """A few lines for the end of a run."""
        return self.recorder.summary()
