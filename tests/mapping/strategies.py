"""Random pmapped programs, as plain data: what hypothesis prints is what ran.

A `Program` says which arguments there are (trees of `Leaf`), how they are mapped, and what the
body computes (one `Op` an output). `body` turns it into the function to map, `arguments` into
values for it, `oracle` into the same map by ``jax.vmap`` on one device.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from hypothesis import strategies as st
from jax import lax

AXIS = "rows"
DTYPES = {
    "float32": np.float32,
    "bfloat16": ml_dtypes.bfloat16,
    "float16": np.float16,
    "int32": np.int32,
    "uint8": np.uint8,
    "bool": np.bool_,
    "complex64": np.complex64,
}
Axis = int | None


class Pair(NamedTuple):
    first: Any
    second: Any


@jax.tree_util.register_pytree_node_class
class Opaque:
    """A node without key paths."""

    def __init__(self, child: Any) -> None:
        self.child = child

    def __repr__(self) -> str:
        return f"Opaque({self.child!r})"

    def tree_flatten(self) -> tuple[tuple[Any], None]:
        return (self.child,), None

    @classmethod
    def tree_unflatten(cls, aux: None, children: tuple[Any]) -> Opaque:
        return cls(*children)


@dataclasses.dataclass(frozen=True)
class Leaf:
    """An array argument: of one row, before the device axis is put in."""

    dtype: str
    shape: tuple[int, ...]
    axis: Axis

    def front(self) -> Axis:
        """The axis counted from the front."""
        from_end = self.axis is not None and self.axis < 0
        return self.axis + len(self.shape) + 1 if from_end else self.axis

    def full_shape(self, rows: int) -> tuple[int, ...]:
        at = self.front()
        return self.shape if at is None else (*self.shape[:at], rows, *self.shape[at:])


@dataclasses.dataclass(frozen=True)
class Op:
    """An output: what is done to which leaf, and where its rows go."""

    names: tuple[str, ...]
    leaf: int
    axis: Axis


@dataclasses.dataclass(frozen=True)
class Program:
    rows: int
    args: tuple[Any, ...]  # trees of Leaf
    in_axes: Any
    keywords: int  # how many of the last arguments are passed by keyword
    static: int | None  # where a static argument is put among the positional ones
    donate: tuple[int, ...]
    ops: tuple[Op, ...]
    shape_out: str  # how the outputs are arranged
    one_out_axis: bool  # out_axes is one value, not a tree

    @property
    def positional(self) -> int:
        return len(self.args) - self.keywords

    @property
    def leaves(self) -> list[Leaf]:
        return jax.tree.leaves(self.args)

    def has_thirds(self) -> bool:
        """Is something divided by a number of rows that is no power of two?"""
        means = any("pmean" in op.names for op in self.ops)
        return means and self.rows not in (1, 2, 4, 8)


# ---- the body


def _inexact(v: Any) -> bool:
    return jnp.issubdtype(v.dtype, jnp.inexact)


def _number(v: Any) -> Any:
    """Something that can be summed: keys and booleans as integers."""
    if jnp.issubdtype(v.dtype, jax.dtypes.prng_key):
        v = jax.random.key_data(v).astype(jnp.int32) & 3
    return v.astype(jnp.int32) if v.dtype == jnp.bool_ else v


def _real(v: Any) -> Any:
    v = _number(v)
    return v.real if jnp.issubdtype(v.dtype, jnp.complexfloating) else v


def _float32(v: Any) -> Any:
    return _real(v).astype(jnp.float32)


def _stacked(v: Any) -> Any:
    """One slice a device, all different, also on each device.

    The latter because vmap's all_to_all of a value that is equal in all rows has a wrong rank
    (jax 0.12.0).
    """
    v, n = _number(v) + _index(v), lax.axis_size(AXIS)
    return v[None] + jnp.arange(n).astype(v.dtype).reshape(n, *[1] * v.ndim)


def _index(v: Any) -> Any:
    return lax.axis_index(AXIS).astype(_number(v).dtype)


def _rotate(v: Any) -> Any:
    n = lax.axis_size(AXIS)
    return lax.ppermute(_number(v), AXIS, [(k, (k + 1) % n) for k in range(n)])


def _grad(v: Any) -> Any:
    return jax.grad(lambda u: jnp.sum(u * lax.psum(u, AXIS) + u * u))(_float32(v))


OPS: dict[str, Callable[[Any], Any]] = {
    "same": lambda v: v,
    "double": lambda v: _number(v) + _number(v),
    "weak": lambda v: _number(v) * 2,
    "less": lambda v: _real(v) < _real(v).dtype.type(1) if v.size else _real(v) < 1,
    "constant": lambda v: 3.0,
    "count": lambda v: lax.psum(1, AXIS),
    "index": lambda v: _number(v) + _index(v),
    "psum": lambda v: lax.psum(_number(v), AXIS),
    "pmean": lambda v: lax.pmean(v if _inexact(v) else _float32(v), AXIS),
    "pmax": lambda v: lax.pmax(_real(v), AXIS),
    "all_gather": lambda v: lax.all_gather(_number(v), AXIS),
    "all_gather_tiled": lambda v: lax.all_gather(_stacked(v), AXIS, tiled=True),
    "rotate": _rotate,
    "all_to_all": lambda v: lax.all_to_all(_stacked(v), AXIS, 0, 0),
    "psum_scatter": lambda v: lax.psum_scatter(_stacked(v), AXIS),
    "grad": _grad,
    "random": lambda v: jax.random.randint(
        jax.random.fold_in(jax.random.key(0), lax.axis_index(AXIS)), v.shape, 0, 9
    ),
}
# These end a chain: what they give grows with the number of rows, or is no array.
LAST = ("constant", "count", "all_gather", "all_gather_tiled")


def body(program: Program, arrange: bool = True) -> Callable[..., Any]:
    """The function of one row."""

    def run(*args: Any, **kwargs: Any) -> Any:
        factor = 1
        if program.static is not None:
            args = list(args)
            factor = len(args.pop(program.static))
        leaves = jax.tree.leaves((tuple(args), [kwargs[k] for k in sorted(kwargs)]))
        outs = []
        for op in program.ops:
            value = leaves[op.leaf]
            for name in op.names:
                value = OPS[name](value)
            outs.append(value * factor if op.names[-1] == "weak" else value)
        return arranged(program.shape_out, outs) if arrange else outs

    return run


def arranged(shape: str, outs: list[Any]) -> Any:
    """The outputs in one of a few trees."""
    half = len(outs) // 2
    match shape:
        case "dict":
            return {"b": tuple(outs[:half]), "a": {"none": None, "rest": list(outs[half:])}}
        case "opaque":
            return Opaque([Opaque(out) for out in outs]), {}
        case _:
            return tuple(outs)


def out_axes(program: Program) -> Any:
    if program.one_out_axis:
        return program.ops[0].axis
    return arranged(program.shape_out, [op.axis for op in program.ops])


# ---- values


def array(leaf: Leaf, rows: int, rng: np.random.Generator, exact: bool) -> Any:
    """Random values; small integers if the results must not depend on the order of sums."""
    shape = leaf.full_shape(rows)
    if leaf.dtype == "key":
        return jax.random.wrap_key_data(rng.integers(0, 2**32, (*shape, 2), dtype=np.uint32))
    if leaf.dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    low = 0 if leaf.dtype == "uint8" else -2
    values = rng.integers(low, 3, shape).astype(np.float32)
    if not exact:
        values = values + rng.uniform(0, 1, shape).astype(np.float32)
    return np.asarray(values).astype(DTYPES[leaf.dtype])


def arguments(program: Program, seed: int, exact: bool) -> tuple[Any, ...]:
    """Host values for every argument."""
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda leaf: array(leaf, program.rows, rng, exact), program.args)


def call(program: Program, fun: Callable[..., Any], args: tuple[Any, ...], tag: str) -> Any:
    """Call a mapped function as the program says: static, positional, keyword arguments."""
    positional, keywords = split(program, args, tag)
    return fun(*positional, **keywords)


def split(program: Program, args: tuple[Any, ...], tag: str) -> tuple[list[Any], dict[str, Any]]:
    positional = list(args[: program.positional])
    if program.static is not None:
        positional.insert(program.static, tag)
    return positional, {f"k{n}": arg for n, arg in enumerate(args[program.positional :])}


def pmap_options(program: Program) -> dict[str, Any]:
    """The keyword arguments of ``pmap``."""
    options: dict[str, Any] = {"in_axes": program.in_axes, "out_axes": out_axes(program)}
    if program.static is not None:
        options["static_broadcasted_argnums"] = program.static
        if isinstance(program.in_axes, tuple):
            axes = program.in_axes
            options["in_axes"] = (*axes[: program.static], None, *axes[program.static :])
    shift = [k + (program.static is not None and k >= program.static) for k in program.donate]
    return {**options, "donate_argnums": tuple(shift)}


def front_axes(program: Program) -> Any:
    """``in_axes`` with no prefix, and counted from the front: jax.pmap gets others wrong."""
    axes = [jax.tree.map(Leaf.front, arg) for arg in program.args[: program.positional]]
    if program.static is not None:
        axes.insert(program.static, None)
    return tuple(axes)


def oracle(program: Program, tag: str) -> Callable[..., Any]:
    """The same map by ``jax.vmap``: rows stacked first, then put where ``out_axes`` says."""
    run = body(program, arrange=False)
    leaf_axes = tuple(jax.tree.map(lambda leaf: leaf.axis, arg) for arg in program.args)

    def one(args: tuple[Any, ...]) -> list[Any]:
        return [jnp.asarray(out) for out in call(program, run, args, tag)]

    mapped = jax.vmap(one, (leaf_axes,), axis_name=AXIS, axis_size=program.rows)
    axes = [op.axis for op in program.ops]
    if program.one_out_axis:
        axes = [axes[0]] * len(axes)

    def place(out: Any, axis: Axis) -> Any:
        return out[0] if axis is None else jnp.moveaxis(out, 0, axis)

    def run_all(*args: Any) -> Any:
        outs = mapped(args)
        outs = [place(out, axis) for out, axis in zip(outs, axes, strict=True)]
        return arranged(program.shape_out, outs)

    return jax.jit(run_all)


# ---- strategies

shapes = st.sampled_from([(2,), (1, 2), (), (2, 3), (1, 2), (3, 1), (0,), (2, 0)])
dtypes = st.sampled_from([*DTYPES, "key"])


@st.composite
def leaves(draw: Any, axis: Any = "own") -> Leaf:
    shape = draw(shapes)
    if axis == "own":
        rank = len(shape)
        axis = draw(st.sampled_from([0, 0, None, -1, *range(rank + 1), *range(-rank - 1, 0)]))
    return Leaf(draw(dtypes), shape, axis)


def trees(leaf: st.SearchStrategy[Leaf]) -> st.SearchStrategy[Any]:
    """Containers of every kind around leaves, None and empty ones among them."""
    some = leaf | st.none()
    return st.one_of(
        leaf,
        st.tuples(leaf, some),
        st.lists(leaf, min_size=1, max_size=2),
        st.fixed_dictionaries({"b": leaf, "a": st.tuples(some)}),
        st.builds(Pair, leaf, st.just({}) | some),
        st.builds(Opaque, leaf | st.tuples(leaf, leaf)),
    )


def axes_of(tree: Any) -> Any:
    """The in_axes of one argument, one a leaf; None stands for itself where there is no leaf."""
    return jax.tree.map(lambda leaf: leaf.axis, tree)


@st.composite
def programs(draw: Any, max_ops: int) -> Program:
    rows = draw(st.integers(1, 8))
    count = draw(st.integers(1, 3))
    uniform = draw(st.sampled_from(["no", "no", "int"]))
    if uniform == "int":
        axis = draw(st.sampled_from([0, -1]))
        args = [draw(trees(leaves(axis))) for _ in range(count)]
        in_axes: Any = axis
    else:
        args, axes = [], []
        for _ in range(count):
            axis = draw(st.sampled_from(["own", "own", 0, -1, None]))
            arg = draw(trees(leaves(axis)))
            args.append(arg)
            axes.append(axes_of(arg) if axis == "own" else axis)
        in_axes = tuple(axes)
    keywords = 0 if draw(st.integers(0, 3)) else draw(st.integers(1, 2))
    extra = [draw(trees(leaves(0))) for _ in range(keywords)]
    args += extra
    if all(leaf.axis is None for leaf in jax.tree.leaves(tuple(args))):
        args.insert(0, draw(leaves(0)))
        count += 1
        in_axes = (0, *in_axes)
    found = jax.tree.leaves(tuple(args))
    if all(0 in leaf.shape for leaf in found):
        args = jax.tree.map(
            lambda leaf: dataclasses.replace(leaf, shape=(2, 3)[: len(leaf.shape)]), args
        )
        found = jax.tree.leaves(tuple(args))
    total = len(found)
    one_out_axis = draw(st.sampled_from([False, False, True]))
    chosen = []
    for _ in range(draw(st.integers(min(2, max_ops), max_ops))):
        names = [draw(st.sampled_from([*OPS]))]
        if names[0] not in LAST and draw(st.booleans()):
            names.append(draw(st.sampled_from([*OPS])))
        leaf = draw(st.integers(0, total - 1))
        axis = draw(st.sampled_from([0, 0, None] if one_out_axis else [1, 0, 1, None]))
        chosen.append(Op(tuple(names), leaf, axis))
    if any(0 in found[op.leaf].shape for op in chosen):
        # A shard_map whose used inputs are all empty does not compile (XLA of jax 0.12.0).
        full = next(k for k, leaf in enumerate(found) if 0 not in leaf.shape)
        chosen.append(Op(("double",), full, chosen[0].axis if one_out_axis else 0))
    return Program(
        rows=rows,
        args=tuple(args),
        in_axes=in_axes,
        keywords=keywords,
        static=draw(st.none() | st.integers(0, count)),
        donate=tuple(k for k in range(count) if draw(st.integers(0, 4)) == 0),
        ops=_fitting(chosen, tuple(args)),
        shape_out=draw(st.sampled_from(["tuple", "dict", "opaque"])),
        one_out_axis=one_out_axis,
    )


def _fitting(ops: list[Op], args: tuple[Any, ...]) -> tuple[Op, ...]:
    """The ops with output axes that their outputs have."""
    found = jax.tree.leaves(args)
    return tuple(
        op if op.axis != 1 or _rank(op, found[op.leaf]) > 0 else dataclasses.replace(op, axis=0)
        for op in ops
    )


@functools.cache
def _rank(op: Op, leaf: Leaf) -> int:
    def chain(value: Any) -> Any:
        for name in op.names:
            value = OPS[name](value)
        return value

    rng = np.random.default_rng(0)
    value = array(dataclasses.replace(leaf, axis=0), 1, rng, exact=True)
    out = jax.eval_shape(jax.vmap(chain, axis_name=AXIS, axis_size=1), value)
    return len(out.shape) - 1
