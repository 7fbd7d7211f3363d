"""What is emitted, called: placing and reading like shardlift's own, without a gather."""

import builtins
import symtable
import types
from collections.abc import Callable
from typing import Any

import pytest

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

import shardlift  # noqa: E402
from shardlift.rewrite.helpers import AXES, DONATING, catalogue, emit  # noqa: E402
from shardlift.source.model import HelperRequest  # noqa: E402

NAMES = (
    "device_put_sharded",
    "device_put_replicated",
    "replicate",
    "prefetch_to_device",
    "unreplicate",
    "shard_map_per_device",
)


@pytest.fixture(scope="module")
def emitted() -> Any:
    module = types.ModuleType("emitted")
    exec(compile(emit(map(HelperRequest, NAMES)), "emitted.py", "exec"), vars(module))
    return module


# Made when a test wants them, not when tests are collected.
LEAVES: dict[str, Callable[[], Any]] = {
    "int": lambda: 3,
    "float": lambda: 3.5,
    "bool": lambda: True,
    "complex": lambda: 1j,
    "numpy scalar": lambda: np.float32(2),
    "wide numpy scalar": lambda: np.float64(2),
    "numpy": lambda: np.arange(6.0).reshape(2, 3),
    "0-d numpy": lambda: np.array(3),
    "weak": lambda: jnp.full((3,), 2.0),
    "bfloat16": lambda: jnp.ones((2, 3), jnp.bfloat16),
    "key": lambda: jax.random.key(0),
    "keys": lambda: jax.random.split(jax.random.key(1), 3),
    "old key": lambda: jax.random.PRNGKey(0),
    "elsewhere": lambda: jax.device_put(jnp.arange(3.0), jax.devices()[3]),
    "empty": lambda: np.zeros((0, 3), np.float32),
    "rows": lambda: shardlift.replicate(np.ones(3, np.float32)),
}


def _bits(x: Any) -> bytes:
    if not x.size:
        return b""  # JAX 0.10 cannot fetch what a jitted function returned
    key = jnp.issubdtype(x.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(x) if key else x).tobytes()


def _alike(one: Any, other: Any, weak: bool = True) -> None:
    assert jax.typeof(one).str_short() == jax.typeof(other).str_short()
    assert not weak or jax.typeof(one).weak_type == jax.typeof(other).weak_type
    assert _bits(one) == _bits(other)
    assert one.sharding.is_equivalent_to(other.sharding, one.ndim)


@pytest.mark.parametrize("kind", LEAVES)
def test_placing_is_that_of_the_library(emitted: Any, kind: str) -> None:
    leaf, devices = LEAVES[kind](), jax.local_devices()
    stacked = emitted.device_put_replicated(leaf, devices)
    _alike(stacked, shardlift.device_put_replicated(leaf, devices))
    _alike(emitted.replicate({"x": leaf})["x"], stacked)
    shards = [leaf] * 8
    one = emitted.device_put_sharded(shards, devices)
    _alike(one, shardlift.device_put_sharded(shards, devices), weak=False)


def test_prefetching_keeps_order_and_looks_so_far_ahead(emitted: Any) -> None:
    taken: list[int] = []

    def items() -> Any:
        for i in range(5):
            taken.append(i)
            yield {"x": np.full((8, 2), i, np.int32)}

    placed = emitted.prefetch_to_device(items(), 2)
    first = next(placed)["x"]
    assert taken == [0, 1]
    assert len(first.addressable_shards) == 8
    assert [int(item["x"].addressable_data(0)[0, 0]) for item in placed] == [1, 2, 3, 4]
    assert not list(emitted.prefetch_to_device(iter([]), 2))


def test_prefetching_does_not_mind_a_buffer_that_is_filled_again(emitted: Any) -> None:
    room = np.zeros(8 * 16 + 16, np.float32)
    start = -room.ctypes.data % 64 // 4  # aligned, so that JAX could take it without a copy
    buffer = room[start : start + 128].reshape(8, 16)

    def items() -> Any:
        for i in range(4):
            buffer[:] = i
            yield {"x": buffer}

    placed = list(emitted.prefetch_to_device(items(), 2))
    assert [float(item["x"].addressable_data(0)[0, 0]) for item in placed] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("shards", "error"),
    [
        ([1, 2], "prefix"),
        ([1] * 9, "prefix"),
        ([np.ones(2)] * 7 + [np.ones(3)], "shape"),
        ([np.ones(2, np.float32)] * 7 + [np.ones(2, np.int32)], "dtypes"),
        ([{"a": 1}] * 7 + [{"b": 1}], "a"),
    ],
)
def test_shards_that_do_not_fit_are_refused(emitted: Any, shards: Any, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        emitted.device_put_sharded(shards, jax.local_devices())


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((np.ones((8, 2)),), "cannot reshape array of size 8"),
        ((np.ones((4, 2)), np.ones((2, 2))), "squeeze|divisible"),
        ((np.ones((2, 2)), np.ones((4, 2))), "squeeze|divisible"),
        ((np.ones((4, 2)), np.float32(1)), "rank"),
    ],
)
def test_nested_maps_fail_loudly(emitted: Any, args: tuple[Any, ...], message: str) -> None:
    mapped = jax.jit(emitted.shard_map_per_device(lambda *a: a, ("i", "j")))
    with pytest.raises(ValueError, match=message):
        mapped(*args)


def test_every_helper_has_what_it_needs() -> None:
    texts = [HelperRequest("spmd_map", frozenset({kind})) for kind in (AXES, DONATING)]
    for asked in (*map(HelperRequest, catalogue()), *texts):
        tree = symtable.symtable(emit([asked]), asked.name, "exec")
        defined = {symbol.get_name() for symbol in tree.get_symbols() if symbol.is_assigned()}
        defined |= {symbol.get_name() for symbol in tree.get_symbols() if symbol.is_imported()}
        assert _globals(tree) - defined <= set(dir(builtins)), asked


def _globals(table: symtable.SymbolTable) -> set[str]:
    """The global names that a text reads, in functions as well."""
    found = {s.get_name() for s in table.get_symbols() if s.is_referenced() and s.is_global()}
    return found.union(*map(_globals, table.get_children()))


@pytest.mark.libraries
def test_the_copy_is_adam_with_the_state_of_flax() -> None:
    flax, optax = pytest.importorskip("flax"), pytest.importorskip("optax")
    module: dict[str, Any] = {}
    exec(emit([HelperRequest("Adam")]), module)
    params, tx = {"w": np.arange(3, dtype=np.float32)}, optax.adamw(0.1, weight_decay=0.1)
    optimizer, state = module["Adam"](weight_decay=0.1).create(params), tx.init(params)
    for _ in range(5):
        grads = jax.tree.map(np.cos, params)
        optimizer = optimizer.apply_gradient(grads, learning_rate=0.1)
        with jax.numpy_dtype_promotion("standard"):
            updates, state = tx.update(grads, state, params)
        params = optax.apply_updates(params, updates)
    np.testing.assert_allclose(optimizer.target["w"], params["w"], rtol=1e-5)
    saved = flax.serialization.to_state_dict(optimizer)["state"]["param_states"]["w"]
    assert saved.keys() == {"grad_ema", "grad_sq_ema"}
