import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from shardlift import device_put_sharded, replicate, show, unreplicate

DEVICES = jax.devices()
MESH = Mesh(np.array(DEVICES), ("i",))


def put(x, *spec):
    return jax.device_put(x, NamedSharding(MESH, PartitionSpec(*spec)))


def test_round_trip():
    tree = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "n": 3, "k": jax.random.key(1)}
    back = unreplicate(replicate(tree))
    np.testing.assert_array_equal(back["w"], tree["w"])
    assert back["n"].item() == 3
    assert back["n"].weak_type
    np.testing.assert_array_equal(jax.random.key_data(back["k"]), jax.random.key_data(tree["k"]))


def test_replicate_takes_devices():
    out = replicate(1.0, devices=DEVICES[3:5])
    assert [s.device for s in out.addressable_shards] == DEVICES[3:5]
    assert unreplicate(out).devices() == {DEVICES[3]}


ROWS = np.arange(16, dtype=np.int32).reshape(8, 2)


@pytest.mark.parametrize(
    "leaf",
    [
        put(ROWS, "i"),
        put(ROWS),
        put(np.repeat(ROWS, 2, axis=0), "i"),  # two rows a device
        put(np.arange(64).reshape(8, 8), None, "i"),  # rows split over devices
        jnp.asarray(ROWS),
        jax.device_put(ROWS, DEVICES[5]),
        ROWS,
        device_put_sharded(list(ROWS), DEVICES[::-1]),
        jax.device_put(ROWS, NamedSharding(Mesh(np.array(DEVICES[:1]), ("i",)), PartitionSpec())),
    ],
    ids=["rows", "replicated", "blocks", "columns", "default", "one", "numpy", "reversed", "mesh"],
)
def test_unreplicate_is_the_first_row(leaf):
    np.testing.assert_array_equal(unreplicate(leaf), np.asarray(leaf)[0])


def test_unreplicate_reads_without_a_transfer_and_on_one_device():
    x = put(ROWS, "i")
    with jax.transfer_guard("disallow_explicit"):
        row = unreplicate({"x": x})["x"]
    assert row.devices() == {DEVICES[0]}


def test_unreplicate_of_numpy_is_a_view():
    assert np.shares_memory(unreplicate(ROWS), ROWS)


def test_unreplicate_while_tracing():
    assert jax.jit(unreplicate)(ROWS).tolist() == [0, 1]


@pytest.mark.parametrize(
    "leaf", [np.int8(1), 5, "name", put(np.float32(1)), jax.device_put(np.int32(3), DEVICES[2])]
)
def test_a_leaf_without_an_axis_is_itself(leaf):
    out = unreplicate({"a": [np.ones(8), leaf]})["a"][1]
    assert np.asarray(out) == np.asarray(leaf)
    if isinstance(leaf, jax.Array):
        assert len(out.devices()) == 1


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (np.float32("nan"), np.float32("nan"), True),
        (np.float32(0.0), np.float32(-0.0), False),
        (np.float32(1), np.nextafter(np.float32(1), np.float32(2)), False),
        (jnp.bfloat16(1), jnp.bfloat16(1), True),
        (np.zeros((0,), np.float32), np.zeros((0,), np.float32), True),
        (jax.random.key(0), jax.random.key(1), False),
        (jax.random.key(4), jax.random.key(4), True),
    ],
    ids=["nan", "zeros", "ulp", "bf16", "empty", "keys", "same key"],
)
def test_comparison_is_bit_by_bit(a, b, same):
    pair = device_put_sharded([a, b], DEVICES[:2])
    assert show(pair).endswith("equal" if same else "differ on cpu:1")


def unequal_copies(*shape: int) -> jax.Array:
    blocks = [jax.device_put(np.full(shape, i == 2, "f"), d) for i, d in enumerate(DEVICES)]
    sharding = NamedSharding(MESH, PartitionSpec())
    return jax.make_array_from_single_device_arrays(shape, sharding, blocks)


@pytest.mark.parametrize("shape", [(), (1,), (8, 2)])
def test_copies_of_a_replicated_array_are_compared_too(shape):
    assert show(unequal_copies(*shape)).endswith("differ on cpu:2")


def test_show():
    tree = {
        "copies": put(np.zeros((4, 2), np.float32)),
        "host": np.ones(3, np.int8),
        "key": replicate(jax.random.key(0)),
        "one": jax.device_put(np.zeros(3, np.int32), DEVICES[2]),
        "rows": put(ROWS, "i"),
        "same": replicate(np.zeros((2, 2), np.float32)),
        "step": 4,
        "torn": unequal_copies(1),
    }
    assert show(tree).splitlines() == [
        "leaf        type            spec          bytes/device  copies  replicas",
        "['copies']  float32[4,2]    P()                     32       8  equal",
        "['host']    int8[3]         host                     -       -  -",
        "['key']     key<fry>[8]     P('devices')             8       1  equal",
        "['one']     int32[3]        on cpu:2                12       1  -",
        "['rows']    int32[8,2]      P('i')                   8       1  differ on "
        "cpu:1, cpu:2, cpu:3, cpu:4, cpu:5, cpu:6, cpu:7",
        "['same']    float32[8,2,2]  P('devices')            16       1  equal",
        "['step']    int             host                     -       -  -",
        "['torn']    float32[1]      P()                      4       8  differ on cpu:2",
    ]


def test_show_while_tracing():
    seen = []
    jax.jit(lambda x: seen.append(show(x)))(ROWS)
    assert seen[0].splitlines()[1].split() == ["<leaf>", "int32[8,2]", "traced", "-", "-", "-"]
