import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shardlift.arrays import device_put_replicated, device_put_sharded
from tests.arrays.test_global_arrays import pointers

DEVICES = jax.devices()


def lies_on(x: jax.Array) -> list[jax.Device]:
    by_row = sorted(x.addressable_shards, key=lambda shard: shard.index[0].start or 0)
    return [shard.device for shard in by_row]


@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1), slice(2, 5)])
def test_sharded_stacks_one_row_a_device(order: slice):
    devices = DEVICES[order]
    shards = [
        {"a": np.full((2, 3), i, np.float32), "b": (jnp.arange(i, i + 4),)}
        for i in range(len(devices))
    ]
    out = device_put_sharded(shards, devices)
    np.testing.assert_array_equal(out["a"], np.stack([s["a"] for s in shards]))
    np.testing.assert_array_equal(out["b"][0], np.stack([s["b"][0] for s in shards]))
    assert lies_on(out["a"]) == lies_on(out["b"][0]) == devices
    assert out["a"].dtype == np.float32


@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1), slice(2, 5)])
def test_replicated_puts_a_copy_on_each_device(order: slice):
    devices = DEVICES[order]
    tree = {"a": np.arange(6.0).reshape(2, 3), "b": [jnp.ones(4, jnp.bfloat16), None]}
    out = device_put_replicated(tree, devices)
    assert out["a"].dtype == np.float32
    assert out["b"][0].dtype == jnp.bfloat16
    for leaf, given in ((out["a"], tree["a"]), (out["b"][0], tree["b"][0])):
        assert lies_on(leaf) == devices
        for shard in leaf.addressable_shards:
            np.testing.assert_array_equal(shard.data[0], given)


@pytest.mark.parametrize(
    ("scalar", "dtype", "weak"),
    [
        (2.5, "float32", True),
        (3, "int32", True),
        (1j, "complex64", True),
        (True, "bool", False),
        (np.float64(2.5), "float32", False),
        (np.int8(3), "int8", False),
    ],
)
def test_scalars_keep_dtype_and_weak_type(scalar, dtype, weak):
    for out in (device_put_replicated(scalar, DEVICES), device_put_sharded([scalar] * 8, DEVICES)):
        assert (out.shape, out.dtype, out.weak_type) == ((8,), dtype, weak)
        assert lies_on(out) == DEVICES
        assert out.tolist() == [scalar] * 8


def test_a_weak_array_stays_weak():
    out = device_put_replicated(jnp.full((2,), 3.0), DEVICES[:2])
    assert out.weak_type
    assert out.tolist() == [[3.0, 3.0]] * 2


def test_typed_keys():
    keys = list(jax.random.split(jax.random.key(7), 8))
    sharded = device_put_sharded(keys, DEVICES)
    replicated = device_put_replicated(keys[3], DEVICES)
    assert jnp.issubdtype(sharded.dtype, jax.dtypes.prng_key)
    data = np.stack([jax.random.key_data(k) for k in keys])
    np.testing.assert_array_equal(jax.random.key_data(sharded), data)
    np.testing.assert_array_equal(jax.random.key_data(replicated), data[[3] * 8])
    assert sharded.sharding == replicated.sharding


def test_nothing_moves_that_lies_right():
    here = [jax.device_put(jnp.full(4, i, jnp.float32), d) for i, d in enumerate(DEVICES)]
    with jax.transfer_guard("disallow_explicit"):
        out = device_put_sharded([{"x": x} for x in here], DEVICES)
    np.testing.assert_array_equal(out["x"], np.stack(here))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool", "int4"])
def test_shards_move_from_device_to_device(dtype):
    shards = [jax.device_put(jnp.arange(4).astype(dtype), DEVICES[7 - i]) for i in range(8)]
    with jax.transfer_guard("disallow"):
        out = device_put_sharded(shards, DEVICES)
    assert (out.dtype, lies_on(out)) == (dtype, DEVICES)
    for shard, given in zip(out.addressable_shards, shards, strict=True):
        np.testing.assert_array_equal(np.asarray(shard.data)[0], np.asarray(given))
    assert not any(x.is_deleted() for x in shards)


@pytest.mark.parametrize("first", ["source", "result"])
@pytest.mark.parametrize("how", ["sharded", "replicated"])
def test_source_and_result_may_both_be_given_away(how, first):
    """They may share memory on the CPU; donating one must not write into the other."""
    source = jax.device_put(np.ones(1 << 16, np.float32), DEVICES[1])
    if how == "sharded":
        out = device_put_sharded([source, source], [DEVICES[0], DEVICES[2]])
    else:
        out = device_put_replicated(source, DEVICES[:3])
    double = jax.jit(lambda x: 2 * x, donate_argnums=0)
    one, other = (source, out) if first == "source" else (out, source)
    assert float(double(one).max()) == 2
    assert float(other.max()) == 1
    assert float(double(other).max()) == 2


def test_host_values_are_an_explicit_transfer():
    here = jnp.ones(2)
    with jax.transfer_guard("disallow"):
        device_put_sharded([1.0] * 8, DEVICES)
        device_put_sharded([np.ones(3)] * 8, DEVICES)
        device_put_replicated({"w": np.ones(3), "n": 1, "k": here, "on": True}, DEVICES)


def test_pmap_takes_the_result_where_it_lies():
    # A pmap that gives its argument back with donation reuses the very buffers it was given.
    out = device_put_replicated(jnp.ones((4, 4)), DEVICES)
    before = pointers(out)
    back = jax.pmap(lambda x: x, donate_argnums=(0,))(out)
    assert out.is_deleted()
    assert pointers(back) == before


@pytest.mark.parametrize(
    ("shards", "devices", "kind", "message"),
    [
        (np.ones((2, 3)), 2, TypeError, r"`shards` input must be a sequence; got <class 'numpy.nd"),
        ((x for x in [1, 2]), 2, TypeError, r"must be a sequence; got <class 'generator'>"),
        ([1, 2], 3, ValueError, r"len\(shards\) = 2 must equal len\(devices\) = 3\."),
        ([], 0, TypeError, r"at least one shard"),
        (
            [np.ones(2), np.ones(3)],
            2,
            ValueError,
            r"shape and dtype, but got float32\[2\] and float32\[3\]\.$",
        ),
        ([np.ones(2), np.ones(2, np.int32)], 2, ValueError, r"got float32\[2\] and int32\[2\]"),
        ([1.0, np.float32(1)], 2, ValueError, r"got ~float32\[\] and float32\[\]"),
        ([{"a": 1, "b": 1}, {"a": 1, "b": np.ones(2)}], 2, ValueError, r"the leaf \['b'\]"),
        ([(1, 2), (1,)], 2, ValueError, r"[Aa]rity mismatch"),
        ([(1, 2), {"a": 1}], 2, ValueError, r"Expected tuple, got"),
        (["a", "b"], 2, TypeError, r"'a' of type <class 'str'> is not a valid JAX type"),
    ],
)
def test_sharded_errors(shards, devices, kind, message):
    with pytest.raises(kind, match=message):
        device_put_sharded(shards, DEVICES[:devices])


@pytest.mark.parametrize(
    "devices", [[], np.array(DEVICES), DEVICES[0]], ids=["none", "array", "one"]
)
def test_replicated_wants_a_sequence_of_devices(devices):
    with pytest.raises(ValueError, match="must be a non-empty sequence"):
        device_put_replicated(1, devices)


def test_a_device_given_twice():
    with pytest.raises(ValueError, match="more than once"):
        device_put_replicated(1, [DEVICES[0], DEVICES[0]])


@pytest.mark.parametrize("value", [1.0, np.float32(1)], ids=["weak", "strong"])
def test_traced_values_are_refused(value):
    with pytest.raises(TypeError, match="concrete values, but got the traced value"):
        jax.jit(lambda x: device_put_replicated(x, DEVICES))(value)
