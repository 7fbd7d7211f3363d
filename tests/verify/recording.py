"""Programs on tape in this process, and captures made by hand."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

import shardlift
from shardlift.capture import files
from shardlift.capture.schema import Sample, SiteKind
from shardlift.verify.compare.judge import Recorded, judge
from shardlift.verify.compare.verdicts import SiteVerdict
from shardlift.verify.tape.child import KEEP, TAPPED
from shardlift.verify.tape.hooks import Hooks
from shardlift.verify.tape.host_arrays import hold
from shardlift.verify.tape.reference_run import Tutor
from shardlift.verify.tape.site_tape import Tape


def taped(
    program: Callable[[], Any],
    *,
    patch: bool = False,
    oracle: str = "shardlift.pmap",
    tutor: Recorded | None = None,
    keep: int = KEEP,
    tapped: int = TAPPED,
) -> Recorded:
    """Run a program with its calls on tape; what it raises is passed over."""
    tape = Tape(keep, keep, tapped)
    hooks = Hooks(tape, oracle, Tutor(*tutor) if tutor else None)
    with shardlift.legacy(patch=patch, recorder=hooks), hooks.installed():
        with contextlib.suppress(ArithmeticError):  # of programs that crash on purpose
            program()
    return Recorded(files.loads(files.dumps(tape.capture())), tape.arrays)


def before(program: Callable[[], Any], **options: Any) -> Recorded:
    """The program before: pmap as it was."""
    return taped(program, patch=True, **options)


def compared(
    old: Callable[[], Any], new: Callable[[], Any], tolerance: Any = None, **options: Any
) -> list[SiteVerdict]:
    """Both on tape, and the verdicts."""
    one = before(old, **options)
    return judge(one, taped(new, tutor=one, **options), tolerance)


def by_hand(
    calls: Mapping[str, Sequence[Mapping[str, Any]]],
    axes: Mapping[str, int | None] | None = None,
    keep: int = KEEP,
    devices: int = 0,
) -> Recorded:
    """A capture of sites and the outputs of their calls, by path."""
    tape = Tape(keep, keep)
    for line, (name, outputs) in enumerate(calls.items()):
        site = tape.site(("by_hand.py", line + 1, name), SiteKind.PMAP, [name])
        site.size = devices
        for number, leaves in enumerate(outputs):
            held = [hold(path, x, (axes or {}).get(path)) for path, x in leaves.items()]
            values = tape.put(site, number, "outputs", held)
            tape.add(site, Sample(number, outputs=values))
    return Recorded(files.loads(files.dumps(tape.capture())), tape.arrays)


def one(verdicts: list[SiteVerdict]) -> SiteVerdict:
    """The only verdict."""
    assert len(verdicts) == 1, verdicts
    return verdicts[0]


def batch(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.normal(size=shape).astype(np.float32)


def mesh(axis: str = "batch", reverse: bool = False) -> jax.sharding.Mesh:
    devices = jax.devices()[::-1] if reverse else jax.devices()
    return jax.sharding.Mesh(np.array(devices), (axis,))
