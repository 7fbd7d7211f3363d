"""The map itself: axes, trees, kinds of arguments, devices."""

import functools
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import shardlift

N = 8


def rows(*shape, dtype=np.float32):
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape)


def same(got, wanted):
    assert jax.tree.structure(got) == jax.tree.structure(wanted)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_one_row_on_each_device_in_order():
    y = shardlift.pmap(lambda x: x * 2)(rows(N, 3))
    assert [shard.device for shard in y.addressable_shards] == jax.devices()
    assert [shard.index[0].start for shard in y.addressable_shards] == list(range(N))
    np.testing.assert_array_equal(y, rows(N, 3) * 2)


def test_output_goes_back_in_without_a_move():
    step = shardlift.pmap(lambda x: x + 1)
    y = step(rows(N))
    with jax.transfer_guard("disallow"):
        y = step(step(y))
    np.testing.assert_array_equal(y, rows(N) + 3)


def total(tree, y):
    return tree["a"] + tree["b"][0].sum() + tree["b"][1] + y.sum()


def each(leaf_function):
    return lambda tree: jax.tree.map(leaf_function, tree)


ADD_ONE = each(lambda x: x + 1)
PREFIX = {"in_axes": ({"a": 0, "b": (1, None)}, None)}
LIKE_VMAP = {
    "in_axes of a tree": (total, PREFIX, ({"a": rows(N), "b": (rows(2, N), 3.0)}, rows(4))),
    "out_axes of a tree": (
        lambda x: {"a": x, "b": (x * 2, None)},
        {"out_axes": {"a": 1, "b": 0}},
        (rows(N, 3),),
    ),
    "None and empty": (ADD_ONE, {}, ([rows(N), None, {}, {"x": ()}],)),
    "no elements": (lambda x: (x, x.sum()), {}, (np.zeros((N, 0, 3), np.float32),)),
    **{f"dtype {d}": (abs, {}, (rows(N, 2).astype(d),)) for d in ("float16", "uint8")},
    "a partial function": (functools.partial(jnp.add, 1.0), {}, (rows(N),)),
    "a ufunc": (jnp.sin, {}, (rows(N),)),
    "a jitted function": (jax.jit(jnp.cos), {}, (rows(N),)),
}


@pytest.mark.parametrize("name", LIKE_VMAP)
def test_like_vmap(name):
    fun, options, args = LIKE_VMAP[name]
    mapped = shardlift.pmap(fun, **options)
    for _ in range(2):  # traced, then from the cache
        same(mapped(*args), jax.vmap(fun, **options)(*args))


def test_out_axes_counted_from_the_end_is_refused_where_it_is_not_axis_0():
    last = shardlift.pmap(lambda x: x, out_axes=-1)
    same(last(rows(N)), jnp.asarray(rows(N)))
    with pytest.raises(ValueError, match=r"Count from the front: out_axes=1"):
        last(rows(N, 3))


def test_out_axes_none_is_the_first_devices_value():
    y = shardlift.pmap(lambda x: x, out_axes=None)(rows(N, 2) + 5)
    np.testing.assert_array_equal(y, [5, 6])
    assert y.sharding.device_set == set(jax.devices())


def test_static_arguments():
    traced = []

    @functools.partial(shardlift.pmap, static_broadcasted_argnums=(0, 2))
    def f(name, x, times):
        traced.append((name, times))
        return x * times

    for _ in range(2):
        np.testing.assert_array_equal(f("a", rows(N), 3), rows(N) * 3)
    np.testing.assert_array_equal(f("a", rows(N), 4), rows(N) * 4)
    assert traced == [("a", 3), ("a", 4)]


def test_a_method_is_bound():
    class Model:
        scale = 3

        @functools.partial(shardlift.pmap, static_broadcasted_argnums=0)
        def step(self, x):
            return x * self.scale

    np.testing.assert_array_equal(Model().step(rows(N)), rows(N) * 3)


def test_devices_are_taken_in_the_order_given():
    devices = jax.devices()[5:1:-1]
    y = shardlift.pmap(lambda x: x, devices=devices)(rows(4))
    placed = {shard.device: float(shard.data[0]) for shard in y.addressable_shards}
    assert placed == {device: float(k) for k, device in enumerate(devices)}


def test_backend():
    y = shardlift.pmap(lambda x: x + 1, backend="cpu")(rows(N))
    assert y.sharding.device_set == set(jax.devices("cpu"))
    with pytest.raises(RuntimeError, match="nonsuch"):
        shardlift.pmap(lambda x: x, backend="nonsuch")(rows(N))


def test_axis_size_stands_in_for_a_mapped_argument():
    f = shardlift.pmap(lambda x: x + lax.axis_index("i"), "i", in_axes=None, axis_size=4)
    np.testing.assert_array_equal(f(10), [10, 11, 12, 13])


class Key:
    """A plain object as axis name."""


# Those that collectives take, and others.
NAMES = ["i", Key(), frozenset({1}), "é"]
MORE_NAMES = [7, None, ("a", "b"), "it's", "a\\b", ""]


def test_any_hashable_axis_name():
    for name in NAMES:
        f = shardlift.pmap(lambda x: (lax.psum(x, name), lax.axis_index(name)), name)  # noqa: B023
        total, index = f(rows(N))
        np.testing.assert_array_equal(total, np.full(N, 28))
        np.testing.assert_array_equal(index, np.arange(N))
    spec = jax.P(("a", "b"))  # JAX may hand out the same object for an equal one
    for name in MORE_NAMES:
        np.testing.assert_array_equal(shardlift.pmap(lambda x: x + 1, name)(rows(N)), rows(N) + 1)
    assert spec == jax.P(("a", "b"))


def test_typed_prng_keys():
    keys = jax.random.split(jax.random.key(0), N)
    draw = shardlift.pmap(lambda k: (jax.random.split(k)[0], jax.random.normal(k)))
    next_keys, values = draw(draw(keys)[0])
    first = jax.vmap(lambda k: jax.random.split(k)[0])(keys)
    np.testing.assert_array_equal(values, jax.vmap(jax.random.normal)(first))
    assert jnp.issubdtype(next_keys.dtype, jax.dtypes.prng_key)


def test_float0_passes_through():
    x = np.zeros((N, 2), jax.dtypes.float0)
    assert shardlift.pmap(lambda x: x)(x).dtype == jax.dtypes.float0


def test_python_scalars_stay_weakly_typed():
    x = np.ones(N, np.float16)
    scaled, scalar, constant = shardlift.pmap(lambda x, s: (x * s, s, 3), in_axes=(0, None))(x, 2.0)
    assert scaled.dtype == np.float16
    assert scalar.weak_type
    assert constant.weak_type
    np.testing.assert_array_equal(constant, np.full(N, 3))


def test_callbacks_and_debug_print(capfd):
    def body(x):
        jax.debug.print("row {x}", x=x)
        shape = jax.ShapeDtypeStruct((), np.float32)
        return jax.pure_callback(lambda v: np.float32(v) * 2, shape, x)

    y = shardlift.pmap(body)(rows(4))
    jax.effects_barrier()
    np.testing.assert_array_equal(y, rows(4) * 2)
    printed = sorted(capfd.readouterr().out.split("\n"))
    assert printed == ["", "row 0.0", "row 1.0", "row 2.0", "row 3.0"]


def test_name_and_wrapped():
    def train_step(x):
        """One step."""
        return x

    pmapped = shardlift.pmap(train_step)
    assert pmapped.__name__ == "train_step"
    assert pmapped.__doc__ == "One step."
    assert pmapped.__wrapped__ is train_step


def test_every_signature_of_a_site_is_called_without_python():
    """jit goes through Python for ever once the trace of a signature has failed."""
    f = shardlift.pmap(lambda x: x + 1, axis_name="i")
    n = jax.local_device_count()
    seen = []
    for width in (3, 4):
        x = jax.block_until_ready(f(np.ones((n, width), np.float32)))
        for _ in range(5):
            x = f(x)
        sys.setprofile(lambda frame, event, _: seen.append(frame) if event == "call" else None)
        try:
            f(x)
        finally:
            sys.setprofile(None)
        assert len([frame for frame in seen if "jax" in frame.f_code.co_filename]) == 0
