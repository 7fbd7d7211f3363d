"""Programs on tape in this process, and captures made by hand."""

import contextlib
import functools
import itertools
import linecache
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from unittest import mock

import jax
import numpy as np

import shardlift
from shardlift.capture import files
from shardlift.capture.schema import Part, Sample, SiteKind
from shardlift.facts import Recorder
from shardlift.recording.site_records import SiteKey
from shardlift.recording.tape.host_arrays import read_array
from shardlift.recording.tape.options import KEEP, TAPPED, TapeOptions
from shardlift.recording.tape.tape import ReferenceRun, Tape
from shardlift.verify.compare.captured_run import CapturedRun
from shardlift.verify.compare.judge import judge
from shardlift.verify.compare.verdicts import SiteVerdict


def taped(
    program: Callable[[], Any],
    *,
    patch: bool = False,
    reference: CapturedRun | None = None,
    keep: int = KEEP,
    tapped: int = TAPPED,
) -> CapturedRun:
    """Run a program with its calls on tape; what it raises is passed over."""
    tape = Tape(TapeOptions(keep, tapped), ReferenceRun(reference.capture) if reference else None)
    recorder = Recorder(facts=False, tape=tape)
    with shardlift.legacy(patch=patch, recorder=recorder):
        with mock.patch.object(jax, "shard_map", recorder.shard_map(jax.shard_map)):
            with contextlib.suppress(ArithmeticError):  # of programs that crash on purpose
                program()
    return recorded(recorder, tape)


def recorded(recorder: Recorder, tape: Tape) -> CapturedRun:
    return CapturedRun(files.loads(files.dumps(recorder.capture())), tape.arrays)


def before(program: Callable[[], Any], **options: Any) -> CapturedRun:
    """The program before: pmap as it was."""
    return taped(program, patch=True, **options)


def compared(
    old: Callable[[], Any], new: Callable[[], Any], tolerance: Any = None, **options: Any
) -> list[SiteVerdict]:
    """Both on tape, and the verdicts."""
    one = before(old, **options)
    return judge(one, taped(new, reference=one, **options), tolerance)


_HEAD = """
import functools
import jax, jax.numpy as jnp, numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from tests.verify.recording import on_rows
"""
_numbers = itertools.count()


def program(text: str) -> Callable[[], Any]:
    """A program from its text; its lines are known like the lines of a file."""
    text = _HEAD + textwrap.dedent(text)
    name = f"/generated/{next(_numbers)}.py"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    code = compile(text, name, "exec")
    return lambda: exec(code, {"__name__": "__main__"})


def on_rows(fun: Any, axis: str = "i", **options: Any) -> Any:
    """The pmap of a function by shard_map, on stacked arrays."""

    @functools.wraps(fun)
    def body(*block: Any) -> Any:
        return jax.tree.map(lambda x: x[None], fun(*jax.tree.map(lambda x: x[0], block)))

    spec = jax.sharding.PartitionSpec(axis)
    options = {"check_vma": False, **options}
    return jax.jit(jax.shard_map(body, mesh=mesh(axis), in_specs=spec, out_specs=spec, **options))


def by_hand(
    calls: Mapping[str, Sequence[Mapping[str, Any]]],
    axes: Mapping[str, int | None] | None = None,
    keep: int = KEEP,
    devices: int = 0,
    kind: SiteKind = SiteKind.PMAP,
) -> CapturedRun:
    """A capture of sites and the outputs of their calls, by path."""
    tape = Tape(TapeOptions(keep))
    recorder = Recorder(facts=False, tape=tape)
    for line, (name, outputs) in enumerate(calls.items()):
        site = recorder._site(SiteKey("by_hand.py", line + 1, name), kind)
        site.names[name] = None
        site.size = devices
        for number, leaves in enumerate(outputs):
            held = [read_array(path, x, (axes or {}).get(path)) for path, x in leaves.items()]
            values = tape.put(site, number, Part.OUTPUTS, held)
            tape.add(site, Sample(number, outputs=values))
    return recorded(recorder, tape)


def one(verdicts: list[SiteVerdict]) -> SiteVerdict:
    """The only verdict."""
    assert len(verdicts) == 1, verdicts
    return verdicts[0]


def batch(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.normal(size=shape).astype(np.float32)


def mesh(axis: str = "batch", reverse: bool = False) -> jax.sharding.Mesh:
    devices = jax.devices()[::-1] if reverse else jax.devices()
    return jax.sharding.Mesh(np.array(devices), (axis,))
