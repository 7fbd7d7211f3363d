"""Random programs are run on eight devices, and every claim is held against the bits.

A program works on registers, arrays of three numbers. An instruction makes a new register out of
two others; some hold a block of instructions: loops, branches, calls. Every register is an output.
A block under a predicate that is equal within groups only may talk within these groups only, and
one under a predicate that is not equal at all must be silent: the others would wait for ever.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, example, given, reject, settings
from hypothesis import strategies as st
from jax import lax

import shardlift
from shardlift._replication import NotProven, Proven, Replication
from tests.children import QUICK
from tests.replication.checking import HALVES, N, hold_against

SHAPE = (3,)
EVERYBODY = ("all", "halves")


class Step(NamedTuple):
    """One instruction: what is done to registers ``a`` and ``b``, among whom, with which block."""

    op: str
    a: int = 0
    b: int = 0
    among: str = ""  # of a collective or a predicate
    block: tuple[Step, ...] = ()


@jax.custom_vjp
def _bent(x: Any) -> Any:
    return x * x


_bent.defvjp(lambda x: (x * x, x), lambda x, g: (jnp.cos(x) * g,))


def _random(value: Any) -> Any:
    seed = lax.bitcast_convert_type(value[0], jnp.uint32)
    return jax.random.uniform(jax.random.fold_in(jax.random.key(7), seed), SHAPE)


def _place(value: Any) -> Any:
    return jnp.int32(jnp.abs(value[0]) * 3)


LOCAL = {
    "sin": lambda a, b: jnp.sin(a),
    "add": lambda a, b: a + b,
    "select": lambda a, b: jnp.where(a > b, a, b - 1),
    "slice": lambda a, b: lax.dynamic_slice(jnp.concatenate([a, b]), (_place(b),), SHAPE),
    "scatter": lambda a, b: a.at[_place(b)].add(b[1], mode="clip"),
    "gradient": lambda a, b: jax.grad(lambda v: jnp.sum(_bent(v) * jnp.sin(b)))(a),
    "random": lambda a, b: _random(a),
    "searchsorted": lambda a, b: jnp.searchsorted(jnp.sort(a), b).astype(a.dtype),
}


def _stacked(value: Any, groups: Any) -> Any:
    """One slice for each member of a group, all different."""
    n = N if groups is None else len(groups[0])
    return value[None] + jnp.arange(n, dtype=value.dtype)[:, None]


def _gradient_of_sum(a: Any, **to: Any) -> Any:
    return jax.grad(lambda v: lax.psum(jnp.sum(v * jnp.cos(a)), **to))(a)


def _all_to_all(a: Any, axis_name: str, axis_index_groups: Any) -> Any:
    parts = _stacked(a, axis_index_groups)
    return lax.all_to_all(parts, axis_name, 0, 0, axis_index_groups=axis_index_groups)[0]


TALKING = {
    "psum": lax.psum,
    "pmax": lax.pmax,
    "all_gather": lambda a, **to: lax.all_gather(a, **to)[-1],
    "psum_scatter": lambda a, **to: lax.psum_scatter(_stacked(a, to["axis_index_groups"]), **to),
    "all_to_all": _all_to_all,
    "gradient_of_sum": _gradient_of_sum,
    "own_place": lambda a, **to: a + lax.axis_index("i").astype(a.dtype),
}
CALLS = {"jit": jax.jit, "remat": jax.checkpoint}
HOLDING = ("scan", "while", "cond", "cond", *CALLS)


def group(among: str) -> dict[str, Any]:
    return {"axis_name": "i", "axis_index_groups": HALVES if among == "halves" else None}


def perform(step: Step, registers: list[Any]) -> Any:
    """The new register of one instruction."""
    a, b = (registers[k % len(registers)] for k in (step.a, step.b))
    if step.op in LOCAL:
        return LOCAL[step.op](a, b)
    if step.op in TALKING:
        return TALKING[step.op](a, **group(step.among))

    def inner(*values: Any) -> Any:
        return evaluate(step.block, [*registers, *values])[-1]

    def holds(value: Any) -> Any:
        return (lax.pmax(value[0], **group(step.among)) if step.among else value[0]) < 0.4

    if step.op in CALLS:
        return CALLS[step.op](inner)(a)
    if step.op == "scan":
        turn = lambda carry, x: ((jnp.sin(inner(*carry, x)), carry[0]), None)
        return lax.scan(turn, (a, b), jnp.stack([a, b, b + 1]))[0][step.b % 2]
    if step.op == "while":
        again = lambda carry: (carry[0] < 4) & holds(carry[1])
        return lax.while_loop(again, lambda c: (c[0] + 1, jnp.sin(inner(c[1]))), (0, a))[1]
    return lax.cond(holds(b), inner, lambda v: v, a)


def evaluate(block: tuple[Step, ...], registers: list[Any]) -> list[Any]:
    """Run a block: the registers after it."""
    for step in block:
        registers = [*registers, jnp.clip(perform(step, registers), -9, 9)]
    return registers


@st.composite
def blocks(draw: Any, reach: tuple[str, ...], depth: int, most: int = 4) -> tuple[Step, ...]:
    """Instructions that talk to ``reach`` only."""
    return tuple(draw(steps(reach, depth)) for _ in range(draw(st.integers(1, most))))


@st.composite
def steps(draw: Any, reach: tuple[str, ...], depth: int) -> Step:
    a, b = draw(st.integers(0, 30)), draw(st.integers(0, 30))
    kinds = [LOCAL] * 4 + [TALKING] * 5 * bool(reach) + [HOLDING] * 3 * bool(depth)
    kind = draw(st.sampled_from(kinds))
    op = draw(st.sampled_from([*kind]))
    if kind is LOCAL:
        return Step(op, a, b)
    if kind is TALKING:
        return Step(op, a, b, draw(st.sampled_from(reach)))
    if op not in ("while", "cond"):
        return Step(op, a, b, "", draw(blocks(reach, depth - 1)))
    among = draw(st.sampled_from(["", *reach]))
    below = {"": (), "halves": ("halves",), "all": reach}[among]
    return Step(op, a, b, among, draw(blocks(below, depth - 1)))


HALF_A_LOOP = (Step("while", 1, 0, "halves", (Step("psum", 2, 0, "halves"),)),)


@pytest.mark.slow
@settings(
    max_examples=100 if os.environ.get(QUICK) == "0" else 30,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)
@given(blocks(EVERYBODY, 2, most=9), st.integers(0, 99))
@example(HALF_A_LOOP, 1)
def test_what_is_called_proven_is_equal(block: tuple[Step, ...], seed: int) -> None:
    rng = np.random.default_rng(seed)
    same = np.ascontiguousarray(np.broadcast_to(rng.uniform(-1, 1, SHAPE), (N, *SHAPE)))
    args = same.astype(np.float32), rng.uniform(-1, 1, (N, *SHAPE)).astype(np.float32)
    mapped = shardlift.pmap(lambda w, x: evaluate(block, [w, x]), "i")
    try:
        found = shardlift.replication(mapped, *args, equal=0)
        out = mapped(*args)
    except NotImplementedError:  # JAX's: all_to_all over groups under scan, and the like
        reject()
    hold_against(found, out)
    assert found.proven[:2] == [True, False]


@pytest.mark.parametrize("said", [Proven(), NotProven(None, None, "", ("j",))])
def test_the_checks_can_fail(said: Proven | NotProven) -> None:
    """A claim that is wrong is noticed: of the whole, and of one axis."""
    out = shardlift.pmap(lambda x: x * 1, "i")(np.arange(24, dtype=np.float32).reshape(N, 3))
    claim = Replication("wrong", {"i": 4, "j": 2}, {"": said}, True)
    with pytest.raises(AssertionError, match=str(said)):
        hold_against(claim, out)
