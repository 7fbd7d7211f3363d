"""Which primitives are taken to be plain, and what is said of the others."""

import gc

import jax
import jax.extend.core as jex
import jax.extend.core.primitives as all_of_jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import shardlift
from shardlift._replication import primitives
from shardlift._replication.proof import RULES
from tests.replication.checking import proven, reason, rows, same

KNOWN = {*primitives.PLAIN, *RULES, *primitives.OPAQUE}


def test_every_primitive_that_jax_exports_was_looked_at():
    # Without outputs, or made and taken away again by a transformation.
    never_seen = {"custom_lin", "dce_sink"}
    exported = [getattr(module, name) for module in (lax, all_of_jax) for name in dir(module)]
    names = {one.name for one in exported if isinstance(one, jex.Primitive)}
    assert names - KNOWN <= never_seen


def test_no_name_is_a_mistake():
    """Each name is a primitive in one of the two JAX lines."""
    alive = {p.name for p in gc.get_objects() if isinstance(p, jex.Primitive)}
    only_new = {"log2", "one_minus_square", "polynomial", "xla_metadata_call", "xla_metadata_value"}
    only_old = {"call", "closed_call"}
    loaded_late = {"io_callback", "pallas_call", "ffi_call"}
    assert KNOWN - alive <= only_new | only_old | loaded_late | {"dot_product"}


def test_no_primitive_has_two_meanings():
    assert not primitives.PLAIN & set(RULES)
    assert not primitives.PLAIN & set(primitives.OPAQUE)


PLAIN = {
    "sort": lambda v: lax.sort(v),
    "top_k": lambda v: lax.top_k(v, 2),
    "solve": lambda v: jnp.linalg.solve(jnp.eye(4) + jnp.outer(v, v), v),
    "eigh": lambda v: jnp.linalg.eigh(jnp.outer(v, v))[0],
    "conv": lambda v: jnp.convolve(v, v),
    "attention": lambda v: jax.nn.dot_product_attention(*[v.reshape(1, 2, 1, 2)] * 3),
}


@pytest.mark.parametrize("name", PLAIN)
def test_plain_functions(name):
    claims = proven(lambda w, x: (PLAIN[name](w), PLAIN[name](x)), same(4), rows(4), equal=0)
    assert all(jax.tree.leaves(claims[0]))
    assert not any(jax.tree.leaves(claims[1]))


def draws(key, x):
    mine = jax.random.fold_in(key, lax.axis_index("i"))
    return (
        jax.random.split(key),
        jax.random.bernoulli(jax.random.fold_in(key, 7), 0.5, (9,)),
        jax.random.uniform(mine),
        mine,
        jax.random.uniform(key, (3,)) + x,
        jax.random.permutation(key, 5),
        jax.random.gamma(key, 2.0),
    )


@pytest.mark.parametrize("impl", ["typed", "raw", "rbg"])
def test_random_numbers_are_a_function_of_the_key(impl):
    key = jax.random.key(1, impl="rbg") if impl == "rbg" else jax.random.key(1)
    key = jax.random.PRNGKey(1) if impl == "raw" else key
    # Compiling rbg for eight devices takes long; what is claimed of it is the same.
    claims = proven(draws, key, rows(3), in_axes=(None, 0), run=impl != "rbg")
    assert claims == (True, True, False, False, False, True, True)


def test_callbacks_are_not_equal():
    def body(w):
        shape = jax.ShapeDtypeStruct((), jnp.float32)
        pure = jax.pure_callback(lambda v: np.float32(v), shape, w)
        effect = jax.experimental.io_callback(lambda v: np.float32(v), shape, w)
        return pure, effect, lax.pmean(pure, "i")

    assert proven(body, same(), equal=0) == (False, False, True)
    said = reason(lambda w: body(w)[0], same(), equal=0)
    assert "pure_callback at" in str(said)
    assert "runs Python on the host" in str(said)


def test_printing_changes_nothing(capfd):
    def body(w):
        jax.debug.print("{}", w)
        jax.debug.callback(lambda v: None, w)
        return w + 1

    assert proven(body, same(), equal=0)
    capfd.readouterr()


def test_a_mutable_reference_is_not_followed():
    def body(w):
        ref = jax.new_ref(w)
        ref[...] = ref[...] + lax.axis_index("i").astype(w.dtype)
        return ref[...], w + 1

    assert proven(body, same(3), equal=0) == (False, True)


def test_foreign_code_is_not_looked_into():
    def body(w):
        return jax.ffi.ffi_call("nothing", jax.ShapeDtypeStruct((3,), jnp.float32))(w)

    said = reason(body, same(3), equal=0)
    assert "ffi_call at" in str(said)
    assert "runs foreign code" in str(said)


def test_memory_that_was_not_written():
    assert not proven(lambda w: lax.empty((3,), jnp.float32), same(), equal=0, run=False)


# ---- primitives of other libraries


def primitive(name):
    made = jex.Primitive(name)
    made.def_impl(lambda x: x)
    made.def_abstract_eval(lambda x: x)
    jax.interpreters.mlir.register_lowering(made, lambda ctx, x: [x])
    return made


ADD = primitive("add")  # in a module, as the primitives of a library are


def test_an_unknown_primitive_is_not_trusted():
    made = primitive("of_a_library")
    fun = shardlift.pmap(lambda w: made.bind(w) + 1, "i")
    found = shardlift.replication(fun, same(), equal=0)
    assert not found.proven
    assert "of_a_library at" in str(found)
    assert "is an unknown primitive" in str(found)


def test_a_primitive_with_a_name_of_jaxs_is_not_taken_for_jaxs():
    """Of any name, whether JAX exports its own primitive of that name or not."""
    assert not proven(lambda w: ADD.bind(w), same(), equal=0)
    for name in primitives.PLAIN | primitives.WITH_FUNCTION | RULES.keys():
        foreign = primitive(name)
        assert not proven(lambda w, p=foreign: p.bind(lax.psum(w, "i")), same(), run=False), name
