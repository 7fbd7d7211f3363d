"""Random programs are run on eight devices, and every claim is held against the bits.

``SHARDLIFT_THOROUGH=N`` tries N programs, new ones each time, and prints how many values were equal
on all devices, and how many were proven to be.
"""

from __future__ import annotations

import collections
import os
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, example, given, reject, settings

import shardlift
from shardlift._replication import NotProven, Proven, Replication
from tests.replication import programs
from tests.replication.checking import bits, hold_against
from tests.replication.programs import Axes, Program, Step

QUICK = 30  # how many programs the quick loop tries
THOROUGH = int(os.environ.get("SHARDLIFT_THOROUGH", "0"))
COUNTS: collections.Counter[str] = collections.Counter()


def profile(quick: int) -> Any:
    return settings(
        max_examples=THOROUGH * quick // QUICK or quick,
        deadline=None,
        derandomize=not THOROUGH,
        database=None,
        phases=(Phase.explicit, Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )


def body(program: Program) -> Any:
    def run(w: Any, x: Any) -> Any:
        return programs.evaluate(program.block, [w, x], Axes(program.grid))

    return run


def count(found: Replication, out: Any) -> None:
    for said, leaf in zip(found.outputs.values(), jax.tree.leaves(out), strict=True):
        COUNTS["values"] += 1
        COUNTS["equal"] += len(set(bits(leaf))) == 1
        COUNTS["proven"] += bool(said)
        COUNTS["along"] += isinstance(said, NotProven) and bool(said.along)


def check(program: Program) -> None:
    COUNTS["programs"] += 1
    same, apart = programs.values(program.seed)
    if program.grid:
        mapped, arguments = on_grid(program), (same, apart)
    else:
        mapped, arguments = shardlift.pmap(body(program), "i"), (same, apart)
    hold(mapped, arguments)


def hold(mapped: Any, arguments: Any) -> None:
    try:
        found = shardlift.replication(mapped, *arguments, equal=0)
        out = mapped(*arguments)
    except NotImplementedError:  # JAX's: all_to_all over groups under vmap, and the like
        COUNTS["refused"] += 1
        reject()
    hold_against(found, out)
    count(found, out)


def on_grid(program: Program) -> Any:
    """Both axes mapped by one ``shard_map``, so that claims are about all eight devices."""
    mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(4, 2), ("i", "j"))

    def block(w: Any, x: Any) -> Any:
        return [value[None] for value in body(program)(w[0], x[0])]

    spec = jax.P(("i", "j"))
    return jax.jit(jax.shard_map(block, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False))


@pytest.mark.slow
@profile(QUICK)
@given(programs.programs())
@example(Program(False, (Step("while", 1, 0, "halves", ((Step("psum", 2, 0, "halves"),),)),), 1))
@example(Program(True, (Step("psum", 1, 0, "j"), Step("psum", 2, 0, "i")), 1))
def test_what_is_called_proven_is_equal(program):
    check(program)


@pytest.mark.slow
@profile(6)
@given(programs.programs(length=5).filter(lambda program: program.grid))
def test_nested_pmaps(program):
    same, apart = (value.reshape(4, 2, -1) for value in programs.values(program.seed))
    inner = shardlift.pmap(body(program), "j")
    outer = shardlift.pmap(lambda w, x: inner(w, x), "i")
    COUNTS["programs"] += 1
    hold(outer, (same, apart))


@pytest.mark.parametrize("said", [Proven(), NotProven(None, None, "", None, ("j",))])
def test_the_checks_can_fail(said):
    """A claim that is wrong is noticed: of the whole, and of one axis."""
    out = shardlift.pmap(lambda x: x * 1, "i")(programs.values(0)[1])
    claim = Replication("wrong", {"i": 4, "j": 2}, {"": said}, True)
    with pytest.raises(AssertionError, match=str(said)):
        hold_against(claim, out)


@pytest.fixture(autouse=True, scope="module")
def _print_counts():
    yield
    if THOROUGH:
        print(f"\n{dict(COUNTS)}")
