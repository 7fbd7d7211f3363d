"""`migrate --speed`: how long the mapped functions take before and after, in runs of their own."""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from shardlift.capture.parts import read_whole
from shardlift.capture.schema import Capture, Site
from shardlift.cli import transaction
from shardlift.launch.session import RunOptions
from shardlift.report.comparison import pairs_of, time_per_call
from shardlift.report.numbers import seconds
from shardlift.verify import runs

RUNS = 2  # of each version, in turn: what else the machine does affects both


class Speed(NamedTuple):
    """The time of one call of a site until its outputs are ready, the best of all runs."""

    name: str
    before: float
    after: float

    def __str__(self) -> str:
        """The change, in words."""
        ratio = self.after / self.before
        word = "slower" if ratio > 1 else "faster"
        change = f"{max(ratio, 1 / ratio):.2f} times {word}" if _differs(ratio) else "as fast"
        return f"{self.name}: {seconds(self.before)} before, {seconds(self.after)} after, {change}"


def _differs(ratio: float) -> bool:
    """Whether a ratio is more than the difference of two runs of the same program."""
    return not 0.9 < ratio < 1.1


def measure_speed(
    command: runs.Source,
    settings: runs.Settings,
    changes: Sequence[transaction.Change],
    root: str,
    patch_after: bool,
    tell: runs.Tell,
) -> tuple[Speed, ...]:
    """Run a program before and after some changes, in turn, and compare the times of its sites."""
    before, after = [], []
    patch_before = False  # with jax.pmap itself, where the program still runs with it
    with tempfile.TemporaryDirectory(prefix="shardlift-") as folder:
        path = os.path.join(folder, "run.json")
        for number in range(1, RUNS + 1):
            tell(f"measuring before ({number} of {RUNS})")
            status, capture = _run(command, settings, path, patch=patch_before)
            if status and not patch_before:
                patch_before = True
                status, capture = _run(command, settings, path, patch=True)
            before.append(capture)
            tell(f"measuring after ({number} of {RUNS})")
            run = functools.partial(_run, command, settings, path, patch=patch_after)
            after.append(transaction.during(changes, root, run)[1])
    return tuple(compare_speeds(before, after))


def _run(
    source: runs.Source, settings: runs.Settings, path: str, *, patch: bool
) -> tuple[int, Capture]:
    """Run a program. Returns its exit status and its capture."""
    options = RunOptions(patch, path, quiet=True, seed=runs.SEED)
    env = runs.environment(settings.devices, os.environ, settings.processes)
    status, _, error = runs.run_program(source, options, settings, env | dict(source.environ))
    try:
        return status, read_whole(path)
    except OSError:
        raise runs.CannotRunError(f"{source.text} recorded no call of JAX\n{error}") from None


def compare_speeds(before: Sequence[Capture], after: Sequence[Capture]) -> Iterator[Speed]:
    """The times of the sites that are in all runs; a run in which none was timed says nothing."""
    for pair in pairs_of(before[0], after[0]):
        if pair.before is None or pair.after is None:
            continue
        times = [
            [time_per_call(found) for run in side for found in run.sites if _same(found, site)]
            for side, site in ((before, pair.before), (after, pair.after))
        ]
        if all(times) and all(min(side) > 0 for side in times):
            yield Speed(pair.name, min(times[0]), min(times[1]))


def _same(one: Site, other: Site) -> bool:
    return (one.file, one.line, one.function) == (other.file, other.line, other.function)
