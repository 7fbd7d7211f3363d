"""Random programs against ``jax.vmap`` on one device and against ``jax.pmap``.

`HYPOTHESIS_PROFILE=thorough` runs some twenty times as many. A case is one call of the engine:
a program with one set of values in one kind of container.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

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
from tests.mapping import strategies as rnd

jax_pmap = jax.pmap  # the original, whatever a run may put in its place later

_common: dict[str, Any] = {
    "deadline": None,
    "derandomize": True,
    "database": None,
    "report_multiple_bugs": False,
    "suppress_health_check": list(HealthCheck),
    # Shrinking compiles a failing program hundreds of times: only on demand.
    "phases": (Phase.explicit, Phase.generate),
}
settings.register_profile("ci", **_common)
settings.register_profile(
    "thorough", **{**_common, "derandomize": False, "phases": (Phase.generate, Phase.shrink)}
)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "ci")
TIMES = {"ci": 1, "thorough": 20}[PROFILE]


def examples(count: int, exhaustive: int | None = None) -> settings:
    """So many random examples; the larger number with `--exhaustive`."""
    if exhaustive is not None and os.environ.get(QUICK) == "0":
        count = exhaustive
    return settings(settings.get_profile(PROFILE), max_examples=count * TIMES)


pytestmark = pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")


# ---- comparing


def plain(leaf: Any) -> np.ndarray:
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    array = np.asarray(leaf)
    return array.astype(np.float32) if array.dtype == jnp.bfloat16 else array


def kind(leaf: Any) -> tuple[Any, ...]:
    return leaf.shape, leaf.dtype, getattr(leaf, "weak_type", False)


def assert_same(got: Any, want: Any, *, exact: bool | str, kinds: bool = True) -> None:
    """Same tree, shapes, dtypes, weak types; same bits, or as near as another order of sums is.

    ``exact`` says that the values are small integers, whose sums have no order; "bits" that
    both sides sum in the same order.
    """
    assert jax.tree.structure(got) == jax.tree.structure(want)
    paths = jax.tree_util.tree_leaves_with_path(got)
    for (path, a), b in zip(paths, jax.tree.leaves(want), strict=True):
        where = jax.tree_util.keystr(path)
        if kinds:
            assert kind(a) == kind(b), where
        x, y = plain(a), plain(b)
        half = a.dtype in (jnp.float16, jnp.bfloat16)
        if not np.issubdtype(x.dtype, np.inexact) or exact == "bits" or (exact and not half):
            np.testing.assert_array_equal(x, y, err_msg=where)
        else:  # XLA sums half precision in float32 where it can
            loose = 6e-2 if half else 2e-5
            scale = float(np.max(np.abs(y), initial=1.0))
            np.testing.assert_allclose(x, y, rtol=loose, atol=loose * scale, err_msg=where)


# ---- placing inputs


def rows_mesh(rows: int) -> Mesh:
    return Mesh(np.array(jax.devices()[:rows]), ("elsewhere",))


def placed(program: rnd.Program, args: tuple[Any, ...], how: str) -> tuple[Any, ...]:
    mesh = rows_mesh(program.rows)

    def place(leaf: rnd.Leaf, value: Any) -> Any:
        if how == "numpy":
            return value
        if how == "device":
            return jnp.array(value, copy=True)
        spec = PartitionSpec()
        if how == "rows" and leaf.axis is not None:
            spec = PartitionSpec(*[None] * leaf.front(), "elsewhere")
        return jax.device_put(value, NamedSharding(mesh, spec), may_alias=False)

    return jax.tree.map(place, program.args, args)


def deleted(args: Any) -> list[bool]:
    return [isinstance(leaf, jax.Array) and leaf.is_deleted() for leaf in jax.tree.leaves(args)]


def check_donation(program: rnd.Program, args: tuple[Any, ...], values: tuple[Any, ...]) -> None:
    """Only donated arguments may be gone, and what is left has kept its value."""
    for k, (arg, value) in enumerate(zip(args, values, strict=True)):
        if k not in program.donate or k >= program.positional:
            assert not any(deleted(arg)), f"argument {k} is gone, and was not donated"
            assert_same(arg, value, exact="bits", kinds=False)


# ---- the tests

TAGS = ("a", "bb")
PLACES = ("numpy", "device", "rows", "everywhere")


def check_program(program: rnd.Program, seeds: range) -> None:
    """One program, many inputs: values exact and not, in every kind of container."""
    fun, options = rnd.body(program), rnd.pmap_options(program)
    ours = pmap(fun, rnd.AXIS, **options)
    theirs = jax_pmap(fun, rnd.AXIS, **{**options, "in_axes": rnd.front_axes(program)})
    tag = TAGS[len(program.ops) % 2]
    alone = rnd.oracle(program, tag)
    for seed in seeds:
        exact = seed % 2 == 0 and not program.has_thirds()
        values = rnd.arguments(program, seed, exact)
        want = alone(*values)
        given_rows = placed(program, values, "rows")
        reference = rnd.call(program, theirs, given_rows, tag)
        gone = deleted(given_rows)
        for place in PLACES:
            args = placed(program, values, place)
            got = rnd.call(program, ours, args, tag)
            assert_same(got, reference, exact="bits")
            assert_same(got, want, exact=exact)
            check_donation(program, args, values)
            if place == "rows":
                # jax.pmap keeps donated PRNG keys; what it frees is freed here too.
                assert all(a or not b for a, b in zip(deleted(args), gone, strict=True))
    check_devices(program, got)


def check_devices(program: rnd.Program, got: Any) -> None:
    devices = set(jax.devices()[: program.rows])
    for leaf in jax.tree.leaves(got):
        assert leaf.sharding.device_set == devices


@examples(9, exhaustive=30)
@given(rnd.programs(max_ops=4))
def test_random_programs(program: rnd.Program) -> None:
    check_program(program, range(3))


# ---- one site, many calls: the table of programs behind the hot path


def bump(tree: Any, scale: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf * scale + lax.psum(leaf, "n"), tree)


bumped = pmap(bump, "n")
VIEWS: dict[str, Callable[[np.ndarray], Any]] = {
    "bare": lambda x: x,
    "dict": lambda x: {"w": x, "b": [x]},
    "pair": lambda x: rnd.Pair(None, x),
    "opaque": rnd.Opaque,
}
calls = st.tuples(
    st.integers(1, 8),
    st.sampled_from([*VIEWS]),
    st.sampled_from([np.float32, np.int32]),
    st.sampled_from(["numpy", "device", "rows", "keyword"]),
    st.integers(0, 99),
)


@pytest.mark.slow
@examples(6, exhaustive=80)
@given(st.lists(calls, min_size=10, max_size=40))
def test_one_site_many_sizes(sequence: list[Any]) -> None:
    check_sequence(sequence)


def check_sequence(sequence: list[Any]) -> None:
    """Rows, structures, dtypes and places in any order give what NumPy gives."""
    for rows, view, dtype, place, seed in sequence:
        x = np.random.default_rng(seed).integers(-9, 9, (rows, 2)).astype(dtype)
        given_x: Any = x
        if place == "rows":
            sharding = NamedSharding(rows_mesh(rows), PartitionSpec("elsewhere"))
            given_x = jax.device_put(x, sharding)
        elif place == "device":
            given_x = jnp.asarray(x)
        scale = np.full(rows, 3, dtype)
        if place == "keyword":
            got = bumped(VIEWS[view](given_x), scale=scale)
        else:
            got = bumped(VIEWS[view](given_x), scale)
        assert_same(got, VIEWS[view](x * dtype(3) + x.sum(0)), exact=True, kinds=False)
        assert all(leaf.dtype == dtype for leaf in jax.tree.leaves(got))
