"""Digests that devices compute equal the digests of the same arrays on the host."""

from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from shardlift.recording.tape import device_digests
from shardlift.recording.tape.device_digests import digest_on_devices
from shardlift.recording.tape.host_arrays import read_array

DEVICES = jax.devices()
TYPES = [
    jnp.float32, jnp.bfloat16, jnp.float8_e4m3fn, jnp.int4, jnp.uint4, jnp.uint16, jnp.int32,
    jnp.bool_,
]  # fmt: skip
SHAPES = [(8, 4, 6), (8,), (16, 3), (8, 1)]
SPECS = [((8,), PartitionSpec("a")), ((8,), PartitionSpec()), ((8, 1), PartitionSpec("a")),
         ((2, 4), PartitionSpec(("b", "a")))]  # fmt: skip


def _bits(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Any bits, with NaNs of all kinds and negative zeros."""
    kind = np.dtype(dtype)
    raw = np.random.default_rng(0).integers(0, 256, (*shape, kind.itemsize), dtype=np.uint8)
    if kind == np.bool_:
        return raw[..., 0] > 127
    if kind.name in ("int4", "uint4"):
        return (raw[..., 0] % 7).astype(kind)
    return np.ascontiguousarray(raw).view(kind)[..., 0]


def _mesh(sizes: tuple[int, ...]) -> Mesh:
    return Mesh(np.array(DEVICES).reshape(sizes), ("a", "b")[: len(sizes)])


def _check(leaf: Any, axis: int | None = None) -> None:
    (found,) = digest_on_devices([(leaf, axis)])
    host = read_array("x", leaf, axis)
    assert found == (host.form.axis, host.digest)


@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_every_type(dtype: Any) -> None:
    for shape in SHAPES[:2]:
        array = _bits(shape, dtype)
        _check(jax.device_put(array, DEVICES[3]))
        _check(jax.device_put(array, NamedSharding(_mesh((8,)), PartitionSpec("a"))), 0)
    _check(jnp.asarray(_bits((), dtype)))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("sizes", "spec"), SPECS, ids=str)
def test_every_layout(sizes: tuple[int, ...], spec: PartitionSpec, shape: tuple[int, ...]) -> None:
    sharding = NamedSharding(_mesh(sizes), spec)
    for array in (_bits(shape, np.float32), np.zeros(shape, np.float32)):
        _check(jax.device_put(array, sharding))
        _check(jax.device_put(array, sharding), 0)


def test_another_axis_and_wide_types() -> None:
    sharding = NamedSharding(_mesh((8,)), PartitionSpec(None, "a"))
    _check(jax.device_put(_bits((3, 8, 2), np.float32), sharding), 1)
    _check(jax.device_put(np.stack([_bits((3, 2), np.float32)] * 8, 1), sharding), 1)
    with jax.enable_x64(True):
        for dtype in (np.float64, np.int64):
            _check(jnp.asarray(_bits((8, 3), dtype)))
            _check(jnp.asarray(_bits((), dtype)))


def test_leaves_of_all_kinds_at_once_are_told_apart() -> None:
    rows, whole = (
        NamedSharding(_mesh((8,)), spec) for spec in (PartitionSpec("a"), PartitionSpec())
    )
    leaves = [jax.device_put(_bits((8, k), np.float32) + k, rows) for k in (1, 3, 1, 3, 2)]
    leaves += [jax.device_put(np.float32(k), whole) for k in range(3)]
    leaves += [jax.device_put(np.float32(k), DEVICES[k]) for k in range(3)]
    found = digest_on_devices([(leaf, None) for leaf in leaves])
    hosts = [read_array("x", leaf) for leaf in leaves]
    assert [digest and digest.text for digest in found] == [host.digest for host in hosts]
    with mock.patch.object(device_digests, "MOST_STACKED", 4):  # nothing is stacked
        device_digests._program.cache_clear()
        assert digest_on_devices([(leaf, None) for leaf in leaves]) == found


def test_what_has_to_be_read() -> None:
    """Copies that disagree, other layouts and types, what is empty, and what is no array."""
    mesh = _mesh((8,))
    vary = jax.shard_map(
        lambda x: x + jax.lax.axis_index("a"), mesh=mesh, in_specs=PartitionSpec(),
        out_specs=PartitionSpec(), check_vma=False,
    )  # fmt: skip
    others = [NamedSharding(_mesh((4, 2)), PartitionSpec(*axes)) for axes in ("ab", "a")]
    gone = jnp.ones(3)
    gone.delete()
    leaves = [jax.jit(vary)(jnp.ones(3, jnp.int32)), np.ones(3), 1.0, "text", gone,
              jax.random.key(0), jnp.ones(3, jnp.complex64), jnp.ones((8, 0))]  # fmt: skip
    leaves += [jax.device_put(np.ones((8, 8)), sharding) for sharding in others]
    assert digest_on_devices([(leaf, None) for leaf in leaves]) == [None] * len(leaves)


def test_one_bit_and_two_places_make_another_digest() -> None:
    base = np.zeros(64, np.float32)
    arrays = [base.copy() for _ in range(64 * 3)]
    for k in range(64):
        arrays[k].view(np.uint32)[k] = 1 << 31  # -0.0
        arrays[64 + k].view(np.uint32)[[k, (k + 1) % 64]] = 1 << 31
        arrays[128 + k][k] = np.float32(ml_dtypes.bfloat16(1e-38))
    texts = {
        found.text for found in digest_on_devices([(jnp.asarray(x), None) for x in arrays]) if found
    }
    assert len(texts) == len(arrays)
