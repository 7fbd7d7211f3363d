"""pmap inside pmap: one mesh, all devices, the old device order."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import shardlift
from tests.mapping.test_pmap import rows


def vmap(fun, axis_name=None, **options):
    return jax.vmap(fun, axis_name=axis_name, **options)


def agree(program, *args, exact=True):
    """Does the program give what it gives with vmap, twice, and on all the devices?"""
    got, wanted = program(shardlift.pmap), program(vmap)(*args)
    compare = functools.partial(np.testing.assert_allclose, rtol=0 if exact else 1e-5)
    for _ in range(2):
        jax.tree.map(compare, got(*args), wanted)
    return got(*args)


def test_every_row_lies_on_its_device():
    f = shardlift.pmap(shardlift.pmap(lambda x: x + 1, "j"), "i")
    y = f(rows(2, 4))
    assert y.sharding.device_set == set(jax.devices())
    where = {shard.device.id: float(shard.data.ravel()[0]) for shard in y.addressable_shards}
    assert where == {k: k + 1.0 for k in range(8)}
    np.testing.assert_array_equal(f(f(y)), rows(2, 4) + 3)


def test_three_levels():
    def program(pm):
        body = lambda x: lax.psum(x, ("a", "c")) + lax.axis_index("b").astype(x.dtype)
        return pm(pm(pm(body, "c"), "b"), "a")

    y = agree(program, rows(2, 2, 2))
    assert y.sharding.spec == jax.P("a", "b", "c")


def test_devices_of_the_outer_pmap_are_used_in_order():
    devices = jax.devices()[::-1]
    f = shardlift.pmap(shardlift.pmap(lambda x: x, "j"), "i", devices=devices)
    y = f(rows(2, 4))
    where = {shard.device: float(shard.data.ravel()[0]) for shard in y.addressable_shards}
    assert where == {device: float(k) for k, device in enumerate(devices)}


def test_an_inner_function_that_closes_over_outer_values():
    def program(pm):
        @functools.partial(pm, axis_name="i")
        def outer(x):
            scale = jnp.sin(x.sum())
            return pm(lambda y: y * scale + lax.psum(y, ("i", "j")), "j")(x)

        return outer

    y = agree(program, rows(2, 4), exact=False)
    assert y.sharding.device_set == set(jax.devices())


def test_siblings_of_other_names_and_sizes():
    def program(pm):
        def outer(x):
            return (
                pm(lambda y: lax.psum(y, "j"), "j")(x),
                pm(lambda y: lax.psum(y, ("i", "k")), "k")(x[:2]),
                pm(lambda y: y * 2, "k")(x),
            )

        return pm(outer, "i")

    agree(program, rows(2, 4))


@pytest.mark.parametrize("out_axes", [0, 1, None])
def test_an_inner_axis_may_shadow_an_outer_one(out_axes):
    def program(pm):
        inner = pm(lambda y: lax.psum(y, "i"), "i", out_axes=out_axes)
        return pm(lambda x: (inner(x), lax.psum(x, "i")), "i")

    agree(program, rows(2, 4, 3))


def test_a_function_that_ran_alone_may_run_inside_another():
    for name in ("i", "j"):
        inner = shardlift.pmap(lambda y: lax.psum(y, name), name)  # noqa: B023
        inner(rows(2))
        outer = shardlift.pmap(lambda x: inner(x) + lax.psum(x, "i"), "i")  # noqa: B023
        for _ in range(2):
            np.testing.assert_array_equal(outer(rows(2, 2)), [[3, 5], [7, 9]])
        np.testing.assert_array_equal(inner(rows(2)), [1, 1])


def test_inner_static_keyword_and_unmapped_outputs():
    def program(pm):
        def inner(x, *, y):
            return (x + y, y.sum())

        def outer(x):
            both, total = pm(inner, "j", out_axes=(0, 0))(x, y=x * 2)
            return both + total

        return pm(outer, "i")

    agree(program, rows(2, 4))
    first = shardlift.pmap(shardlift.pmap(lambda x: lax.psum(x, "j"), "j", out_axes=None), "i")
    np.testing.assert_array_equal(first(rows(2, 4)), rows(2, 4).sum(1))


TRANSFORMS = {
    "jit": jax.jit,
    "checkpoint": jax.checkpoint,
    "grad": lambda f: jax.grad(lambda x: (f(x) ** 2).sum()),
    "vmap": lambda f: lambda x: jax.vmap(f)(jnp.stack([x, x + 1])),
    "scan": lambda f: lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0],
    "linearize": lambda f: lambda x: jax.linearize(f, x)[1](x),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_under_a_transformation(transform):
    def program(pm):
        body = lambda x: jnp.sin(x) + lax.pmean(x * x, ("i", "j"))
        return TRANSFORMS[transform](pm(pm(body, "j"), "i"))

    agree(program, jnp.asarray(rows(2, 4)), exact=False)


@pytest.mark.parametrize("jit_first", [True, False])
def test_with_jit_disabled(jit_first):
    f = shardlift.pmap(shardlift.pmap(lambda x: lax.psum(x, ("i", "j")) + x, "j"), "i")
    for turn in range(4):
        with jax.disable_jit(turn % 2 == jit_first):
            np.testing.assert_array_equal(f(rows(2, 2)), rows(2, 2) + 6)


def test_too_few_devices_for_all_axes():
    with pytest.raises(ValueError, match=r"requires 10 logical devices.*nested axes \{'j': 5\}"):
        shardlift.pmap(shardlift.pmap(lambda x: x, "j"), "i")(rows(2, 5))
    one = shardlift.pmap(shardlift.pmap(lambda x: x, "j"), "i", devices=jax.devices()[:1])
    with pytest.raises(ValueError, match="requires 4 local devices to run due to nested pmapped"):
        one(rows(1, 4))


def test_devices_of_an_inner_pmap_are_refused():
    f = shardlift.pmap(shardlift.pmap(lambda x: x, "j", devices=jax.devices()[:4]), "i")
    with pytest.raises(ValueError, match="Nested pmap with explicit devices argument"):
        f(rows(2, 4))


def test_an_error_in_the_inner_body_comes_through():
    def inner(x):
        raise LookupError("inner")

    with pytest.raises(LookupError, match="inner"):
        shardlift.pmap(shardlift.pmap(inner, "j"), "i")(rows(2, 4))
    np.testing.assert_array_equal(shardlift.pmap(lambda x: x)(rows(8)), rows(8))


def test_ahead_of_time():
    f = shardlift.pmap(shardlift.pmap(lambda x: lax.psum(x, ("i", "j")), "j"), "i")
    np.testing.assert_array_equal(f.lower(rows(2, 4)).compile()(rows(2, 4)), np.full((2, 4), 28))
    assert f.eval_shape(rows(2, 4)).shape == (2, 4)
    np.testing.assert_array_equal(f.as_shard_map(rows(2, 4))(rows(2, 4)), np.full((2, 4), 28))
    assert f.explain(rows(2, 4)).mesh.shape == {"i": 2, "j": 4}


class Alike:
    def __repr__(self):
        return "same"


def test_axis_names_that_print_alike():
    outer, inner = Alike(), Alike()
    agree(lambda pm: pm(pm(lambda x: lax.psum(x, (outer, inner)), inner), outer), rows(2, 4))


def test_an_inner_pmap_in_a_derivative_rule_that_is_traced_later():
    def program(pm):
        inner = pm(lambda g: g + lax.psum(g, "j"), "j")
        double = jax.custom_vjp(lambda x: x * 2)
        double.defvjp(lambda x: (x * 2, None), lambda _, g: (inner(g),))
        return jax.grad(lambda x: pm(lambda r: double(r).sum(), "i")(x).sum())

    agree(program, rows(2, 4))
