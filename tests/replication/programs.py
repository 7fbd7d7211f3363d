"""Random programs, as plain data: what hypothesis prints is what ran.

A program works on registers, arrays of three numbers. An instruction makes a new register out of
two others; some hold blocks of instructions: loops, branches, calls. Every register is an output.
A block under a predicate that is equal within groups only may talk within these groups only, and
one under a predicate that is not equal at all must be silent: the others would wait for ever.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st
from jax import lax

from tests.replication.checking import HALVES

SHAPE = (3,)
MIXED = [[0, 7], [4, 3], [6, 1], [2, 5]]
GROUPS = {"halves": HALVES, "mixed": MIXED}
GRID_AXES = {"i": "i", "j": "j", "ij": ("i", "j"), "ji": ("j", "i")}


class Step(NamedTuple):
    """One instruction: what is done to registers ``a`` and ``b``, and with what."""

    op: str
    a: int = 0
    b: int = 0
    arg: Any = None
    blocks: tuple[tuple[Step, ...], ...] = ()


Block = tuple[Step, ...]


class Axes(NamedTuple):
    """Which axes a collective may go over: a line of eight, or a grid of four times two."""

    grid: bool

    def collective(self, where: str) -> dict[str, Any]:
        """The axis and the groups of a collective that goes over ``where``."""
        if self.grid:
            return {"axis_name": GRID_AXES[where]}
        return {"axis_name": "i", "axis_index_groups": GROUPS.get(where)}

    def size(self, where: str) -> int:
        if self.grid:
            return {"i": 4, "j": 2}.get(where, 8)
        return len(GROUPS[where][0]) if where in GROUPS else 8


# ---- what the instructions do


def _stacked(value: Any, n: int) -> Any:
    """One slice for each member of a group, all different."""
    return value[None] + jnp.arange(n, dtype=value.dtype)[:, None]


def _rotated(value: Any, by: int, axes: Axes, where: str, wrap: bool) -> Any:
    if not axes.grid and where in GROUPS:
        where = "all"
    n = axes.size(where)
    pairs = [(k, (k + by) % n) for k in range(n) if wrap or k + by < n]
    return lax.ppermute(value, axes.collective(where)["axis_name"], pairs)


@jax.custom_jvp
def _odd(x: Any) -> Any:
    return x * 2 - x**3


_odd.defjvp(lambda primals, tangents: (_odd(*primals), 3 * tangents[0]))


@jax.custom_vjp
def _bent(x: Any) -> Any:
    return x * x


_bent.defvjp(lambda x: (x * x, x), lambda x, g: (jnp.cos(x) * g,))


def _random(value: Any) -> Any:
    seed = lax.bitcast_convert_type(value[0], jnp.uint32)
    return jax.random.uniform(jax.random.fold_in(jax.random.key(7), seed), SHAPE)


LOCAL = {
    "sin": lambda a, b: jnp.sin(a),
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "select": lambda a, b: jnp.where(a > b, a, b - 1),
    "slice": lambda a, b: lax.dynamic_slice(
        jnp.concatenate([a, b]), (jnp.int32(jnp.abs(b[0]) * 3),), SHAPE
    ),
    "scatter": lambda a, b: a.at[jnp.int32(jnp.abs(b[0]) * 3)].add(b[1], mode="clip"),
    "custom_vjp": lambda a, b: _bent(a) + b,
    "grad": lambda a, b: jax.grad(lambda v: jnp.sum(_bent(v) * jnp.sin(b)))(a),
    "jvp": lambda a, b: jax.jvp(_odd, (a,), (b,))[1],
    "typed_key": lambda a, b: _random(a),
    "searchsorted": lambda a, b: jnp.searchsorted(jnp.sort(a), b).astype(a.dtype),
}
TALKING = {
    "psum": lambda a, to, axes, where: lax.psum(a, **to),
    "pmean": lambda a, to, axes, where: lax.pmean(a, **to),
    "pmax": lambda a, to, axes, where: lax.pmax(a, **to),
    "pmin": lambda a, to, axes, where: lax.pmin(a, **to),
    "all_gather": lambda a, to, axes, where: lax.all_gather(a, **to)[-1],
    "psum_scatter": lambda a, to, axes, where: lax.psum_scatter(
        _stacked(a, axes.size(where)), **to
    ),
    "all_to_all": lambda a, to, axes, where: lax.all_to_all(
        _stacked(a, axes.size(where)), split_axis=0, concat_axis=0, **to
    )[0],
    "grad_of_psum": lambda a, to, axes, where: jax.grad(
        lambda v: lax.psum(jnp.sum(v * jnp.cos(a)), **to)
    )(a),
    "own_place": lambda a, to, axes, where: a + lax.axis_index(to["axis_name"]).astype(a.dtype),
}
MOVING = ("rotate", "shift")
CALLS = {
    "jit": lambda fun: jax.jit(fun),
    "remat": lambda fun: jax.checkpoint(fun),
    "vmap": lambda fun: lambda v: jax.vmap(fun)(jnp.stack([v, v + 1]))[1],
    "grad_of": lambda fun: jax.grad(lambda v: jnp.sum(jnp.sin(fun(v)))),
    "remat_grad": lambda fun: jax.grad(lambda v: jnp.sum(jax.checkpoint(fun)(v))),
}


def _predicate(step: Step, value: Any, axes: Axes) -> Any:
    """A boolean made of a register: of one's own, of a group's, of all."""
    if step.arg in ("own", "count"):
        return value[0] < 0.4 if step.arg == "own" else jnp.bool_(True)
    return lax.pmax(value[0], **axes.collective(step.arg)) < 0.4


def _loop(step: Step, regs: list[Any], axes: Axes, start: Any) -> Any:
    def again(carry: Any) -> Any:
        return (carry[0] < 4) & _predicate(step, carry[1], axes)

    def body(carry: Any) -> Any:
        return carry[0] + 1, jnp.sin(evaluate(step.blocks[0], [*regs, carry[1]], axes)[-1])

    return lax.while_loop(again, body, (0, start))[1]


def _scan(step: Step, regs: list[Any], axes: Axes, start: Any, xs: Any) -> Any:
    def body(carry: Any, x: Any) -> Any:
        first, second = carry
        values = evaluate(step.blocks[0], [*regs, first, second, x], axes)
        return (jnp.sin(values[-1]), first), values[-2]

    (first, second), ys = lax.scan(body, (start, xs), jnp.stack([xs, xs + 1, start]))
    return {"first": first, "second": second, "ys": ys[1]}[step.arg]


def perform(step: Step, regs: list[Any], axes: Axes) -> Any:
    """The new register of one instruction."""
    a, b = regs[step.a % len(regs)], regs[step.b % len(regs)]
    if step.op in LOCAL:
        return LOCAL[step.op](a, b)
    if step.op in TALKING:
        to = axes.collective(step.arg)
        if step.op == "own_place":
            to = {"axis_name": to["axis_name"]}
        return TALKING[step.op](a, to, axes, step.arg)
    if step.op in MOVING:
        where, by = step.arg
        return _rotated(a, by, axes, where, step.op == "rotate")
    if step.op in CALLS:
        return CALLS[step.op](lambda v: evaluate(step.blocks[0], [*regs, v], axes)[-1])(a)
    if step.op == "while":
        return _loop(step, regs, axes, a)
    if step.op == "scan":
        return _scan(step, regs, axes, a, b)
    assert step.op == "cond"
    branches = [lambda v, k=k: evaluate(step.blocks[k], [*regs, v], axes)[-1] for k in (0, 1)]
    return lax.cond(_predicate(step, b, axes), *branches, a)


def evaluate(block: Block, regs: list[Any], axes: Axes) -> list[Any]:
    """Run a block: the registers after it."""
    for step in block:
        regs = [*regs, jnp.clip(perform(step, regs, axes), -9, 9)]
    return regs


# ---- strategies


@st.composite
def steps(draw: Any, reach: tuple[str, ...], axes: Axes, depth: int, diff: bool) -> Step:
    """An instruction that talks to ``reach`` only; ``diff``: it will be differentiated."""
    kinds = ["local"] * 4 + (["talk"] * 5 if reach else []) + (["hold"] * 3 if depth else [])
    a, b = draw(st.integers(0, 30)), draw(st.integers(0, 30))
    kind = draw(st.sampled_from(kinds))
    if kind == "local":
        names = [name for name in LOCAL if not (diff and name == "searchsorted")]
        return Step(draw(st.sampled_from(names)), a, b)
    if kind == "talk":
        return draw(_talks(reach, axes, a, diff))
    return draw(_holds(reach, axes, depth, a, b, diff))


@st.composite
def _talks(draw: Any, reach: tuple[str, ...], axes: Axes, a: int, diff: bool) -> Step:
    whole = not set(reach) & set(GROUPS) or len(reach) > 1
    names = [*TALKING, *(MOVING if whole and not axes.grid else ())]
    if diff:  # no derivative in JAX
        names = [name for name in names if name not in ("pmax", "pmin")]
    name = draw(st.sampled_from(names))
    where = draw(st.sampled_from(reach))
    if name in MOVING:
        return Step(name, a, 0, ("all", draw(st.integers(1, 7))))
    return Step(name, a, 0, where)


@st.composite
def _holds(
    draw: Any, reach: tuple[str, ...], axes: Axes, depth: int, a: int, b: int, diff: bool
) -> Step:
    op = draw(st.sampled_from(["while", "scan", "cond", "cond", *CALLS]))
    if diff and op == "while":  # no reverse derivative
        op = "scan"
    if op in CALLS:
        inner = diff or "grad" in op
        return Step(op, a, b, None, (draw(blocks(reach, axes, depth - 1, inner)),))
    if op == "scan":
        arg = draw(st.sampled_from(["first", "second", "ys"]))
        return Step(op, a, b, arg, (draw(blocks(reach, axes, depth - 1, diff)),))
    arg, below = draw(_predicates(reach, axes, diff))
    count = 2 if op == "cond" else 1
    parts = tuple(draw(blocks(below, axes, depth - 1, diff)) for _ in range(count))
    return Step(op, a, b, arg, parts)


@st.composite
def _predicates(
    draw: Any, reach: tuple[str, ...], axes: Axes, diff: bool
) -> tuple[str, tuple[str, ...]]:
    """What decides, and who may be talked to below it."""
    arg = draw(st.sampled_from(["own", "count", *(reach if not diff else ())]))
    if arg == "own":
        return arg, ()
    if arg in ("count", "all", "ij", "ji"):
        return arg, reach
    return arg, (arg,)  # equal along one axis of a grid, or within groups


@st.composite
def blocks(draw: Any, reach: tuple[str, ...], axes: Axes, depth: int, diff: bool) -> Block:
    count = draw(st.integers(1, 4))
    return tuple(draw(steps(reach, axes, depth, diff)) for _ in range(count))


class Program(NamedTuple):
    grid: bool
    block: Block
    seed: int


@st.composite
def programs(draw: Any, length: int = 9) -> Program:
    axes = Axes(draw(st.booleans()))
    reach = tuple(GRID_AXES) if axes.grid else ("all", "all", *GROUPS)
    count = draw(st.integers(3, length))
    block = tuple(draw(steps(reach, axes, 2, False)) for _ in range(count))
    return Program(axes.grid, block, draw(st.integers(0, 99)))


def values(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """What is equal on all devices, and what is not: a row a device."""
    rng = np.random.default_rng(seed)
    same = np.broadcast_to(rng.uniform(-1, 1, SHAPE).astype(np.float32), (8, *SHAPE))
    return np.ascontiguousarray(same), rng.uniform(-1, 1, (8, *SHAPE)).astype(np.float32)
