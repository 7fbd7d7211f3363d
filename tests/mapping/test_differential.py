"""Random programs against ``jax.vmap``, on small integers: every bit must agree."""

import os
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from shardlift import pmap
from tests.children import QUICK
from tests.mapping.trees import DTYPES, Opaque, Pair

VIEWS = {
    "bare": lambda x: x,
    "dict": lambda x: {"b": [x], "a": {}},
    "pair": lambda x: Pair(None, x),
    "opaque": Opaque,
}


class Argument(NamedTuple):
    """An array in a container: of one row, before the device axis is put in."""

    view: str
    dtype: str
    shape: tuple[int, ...]
    axis: int | None

    @property
    def front(self) -> int | None:
        """The axis counted from the front."""
        return self.axis if self.axis is None else self.axis % (len(self.shape) + 1)

    def values(self, rows: int, rng: np.random.Generator) -> Any:
        shape, at = self.shape, self.front
        if at is not None:
            shape = (*shape[:at], rows, *shape[at:])
        return rng.integers(0, 3, shape).astype(DTYPES[self.dtype])


class Output(NamedTuple):
    """What is done to which argument, and where its rows go."""

    op: str
    argument: int
    axis: int | None


class Program(NamedTuple):
    rows: int
    arguments: tuple[Argument, ...]
    outputs: tuple[Output, ...]
    prefix: bool  # in_axes has one value per argument, not one per leaf
    keyword: bool  # the last argument is passed by keyword
    static: bool  # the first one is a static argument
    donate: tuple[int, ...]
    seed: int


def index(v: Any) -> Any:
    return lax.axis_index("n").astype(v.dtype)


def rotate(v: Any) -> Any:
    n = lax.axis_size("n")
    return lax.ppermute(v, "n", [(k, (k + 1) % n) for k in range(n)])


def gradient(v: Any) -> Any:
    return jax.grad(lambda u: jnp.sum(u * lax.psum(u, "n") + u * u))(v.real.astype(jnp.float32))


OPS = {
    "same": lambda v: v,
    "double": lambda v: v + v,
    "constant": lambda v: 3.0,
    "index": lambda v: v + index(v),
    "psum": lambda v: lax.psum(v, "n"),
    "all_gather": lambda v: lax.all_gather(v, "n"),
    "rotate": rotate,
    "gradient": gradient,
}


@st.composite
def arguments(draw: Any, keyword: bool) -> Argument:
    shape = draw(st.sampled_from([(2,), (1, 2), (), (3, 1)]))
    axes = [0] if keyword else [0, 0, None, *range(-len(shape) - 1, len(shape) + 1)]
    dtype = draw(st.sampled_from(["float32", "bfloat16", "int32", "uint8", "complex64"]))
    return Argument(draw(st.sampled_from([*VIEWS])), dtype, shape, draw(st.sampled_from(axes)))


@st.composite
def programs(draw: Any) -> Program:
    keyword = draw(st.booleans())
    count = draw(st.integers(1, 3))
    given = [draw(arguments(keyword and k == count - 1)) for k in range(count)]
    chosen = []
    for _ in range(draw(st.integers(1, 4))):
        op, k = draw(st.sampled_from([*OPS])), draw(st.integers(0, count - 1))
        deep = given[k].shape and op != "constant"
        chosen.append(Output(op, k, draw(st.sampled_from([0, None, 1] if deep else [0, None]))))
    return Program(
        rows=draw(st.integers(1, 8)),
        arguments=tuple(given),
        outputs=tuple(chosen),
        prefix=draw(st.booleans()),
        keyword=keyword,
        static=draw(st.booleans()),
        donate=tuple(k for k in range(count - keyword) if draw(st.booleans())),
        seed=draw(st.integers(0, 99)),
    )


def compute(program: Program, leaves: list[Any]) -> tuple[Any, ...]:
    return tuple(OPS[out.op](leaves[out.argument]) for out in program.outputs)


def mapped(program: Program) -> Any:
    """The program's function, pmapped."""
    given = program.arguments[: len(program.arguments) - program.keyword]
    axes = [arg.axis if program.prefix else VIEWS[arg.view](arg.axis) for arg in given]
    shift = int(program.static)

    def run(*args: Any, **kwargs: Any) -> Any:
        assert not program.static or args[0] == "tag"
        return compute(program, jax.tree.leaves((args[shift:], kwargs)))

    return pmap(
        run,
        "n",
        in_axes=(*[None] * shift, *axes),
        out_axes=tuple(out.axis for out in program.outputs),
        static_broadcasted_argnums=range(shift),
        donate_argnums=[k + shift for k in program.donate],
        axis_size=program.rows,
    )


def expected(program: Program, values: list[Any]) -> list[Any]:
    """The same by ``jax.vmap``: rows stacked first, then put where ``out_axes`` says."""
    axes = [arg.axis for arg in program.arguments]
    rows = jax.vmap(
        lambda leaves: compute(program, leaves), (axes,), axis_name="n", axis_size=program.rows
    )([jnp.asarray(value) for value in values])
    return [
        row[0] if out.axis is None else jnp.moveaxis(row, 0, out.axis)
        for row, out in zip(rows, program.outputs, strict=True)
    ]


def place(value: Any, how: str, rows: int, axis: int | None) -> Any:
    if how == "numpy":
        return value
    if how == "device":
        return jnp.array(value, copy=True)
    spec = PartitionSpec()
    if how == "rows" and axis is not None:
        spec = PartitionSpec(*[None] * axis, "elsewhere")
    mesh = Mesh(np.array(jax.devices()[:rows]), ("elsewhere",))
    return jax.device_put(value, NamedSharding(mesh, spec), may_alias=False)


@pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")
@settings(
    max_examples=60 if os.environ.get(QUICK) == "0" else 12,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.generate),  # shrinking compiles a program hundreds of times
)
@given(programs())
def test_random_programs(program: Program) -> None:
    rng = np.random.default_rng(program.seed)
    values = [arg.values(program.rows, rng) for arg in program.arguments]
    want, fun = expected(program, values), mapped(program)
    devices = set(jax.devices()[: program.rows])
    for how in ("numpy", "device", "rows", "everywhere"):
        placed = [
            place(value, how, program.rows, arg.front)
            for value, arg in zip(values, program.arguments, strict=True)
        ]
        args = [VIEWS[a.view](x) for a, x in zip(program.arguments, placed, strict=True)]
        kwargs = {"last": args.pop()} if program.keyword else {}
        got = fun(*["tag"] * program.static, *args, **kwargs)
        for one, other in zip(got, want, strict=True):
            assert (one.dtype, one.weak_type) == (other.dtype, other.weak_type)
            assert one.sharding.device_set == devices
            np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
        for k, x in enumerate(placed):
            if k not in program.donate:
                np.testing.assert_array_equal(np.asarray(x), values[k])  # it is still there
