"""Bad input: the exception types of the old pmap, and messages that say what to do."""

import re

import jax
import numpy as np
import pytest

import shardlift
from shardlift.mapping.errors import catalogue, hint_for

N = 8


def ones(*shape):
    return np.ones(shape, np.float32)


def identity(x):
    return x


def second(x, y):
    return y


CALLS = {
    "sizes": (
        lambda: shardlift.pmap(second)(ones(N), {"a": ones(7)}),
        ValueError,
        "pmap got inconsistent sizes for array axes to be mapped:\n"
        "  * size 8: axis 0 of x, shape (8,)\n  * size 7: axis 0 of y['a'], shape (7,)",
    ),
    "rank": (
        lambda: shardlift.pmap(second)(ones(N), [3.0]),
        ValueError,
        "map its argument y[0] along axis 0, which implies that its rank should be at least 1, "
        "but is only 0",
    ),
    "rows": (
        lambda: shardlift.pmap(identity)(ones(9)),
        ValueError,
        "requires 9 logical devices, but only 8 XLA devices are available (num_replicas=9)",
    ),
    "no rows": (lambda: shardlift.pmap(identity)(ones(0, 2)), ValueError, "0 rows"),
    "devices": (
        lambda: shardlift.pmap(identity, devices=jax.devices())(ones(4)),
        ValueError,
        "must equal the number of local devices passed to pmap. Got axis_size=4, "
        "num_local_devices=8.",
    ),
    "no devices": (
        lambda: shardlift.pmap(identity, devices=[]),
        ValueError,
        "'devices' argument to pmap must be non-empty, or None.",
    ),
    "a device twice": (
        lambda: shardlift.pmap(identity, devices=jax.devices()[:1] * 2),
        ValueError,
        "more than once",
    ),
    "axis_size": (
        lambda: shardlift.pmap(identity, axis_size=4)(ones(N)),
        ValueError,
        "Specified axis_size 4 doesn't match received axis_size 8.",
    ),
    "axis_size 0": (lambda: shardlift.pmap(identity, axis_size=0), ValueError, "at least 1"),
    "nothing mapped": (
        lambda: shardlift.pmap(identity, in_axes=None)(3.0),
        ValueError,
        "at least one argument with a mapped axis",
    ),
    "in_axes length": (
        lambda: shardlift.pmap(second, in_axes=(0,))(ones(N), ones(N)),
        ValueError,
        "in_axes is a tuple of length 1, but the arguments there are a tuple of length 2",
    ),
    "in_axes without static": (
        lambda: shardlift.pmap(second, in_axes=(0,), static_broadcasted_argnums=0)(1, ones(N)),
        ValueError,
        "Static arguments are counted in in_axes",
    ),
    "out_axes too large": (
        lambda: shardlift.pmap(lambda x: {"a": x}, out_axes=2)(ones(N)),
        ValueError,
        "output['a'] has shape () on each device, so its device axis can be 0 to 0",
    ),
    "in_axes type": (lambda: shardlift.pmap(identity, in_axes="a"), TypeError, "but got 'a'"),
    "out_axes type": (lambda: shardlift.pmap(identity, out_axes=1.0), TypeError, "pmap out_axes"),
    "static list": (
        lambda: shardlift.pmap(second, static_broadcasted_argnums=1)(ones(N), [2]),
        ValueError,
        "Non-hashable static arguments are not supported: argument y of second",
    ),
    "static missing": (
        lambda: shardlift.pmap(lambda x, s=1: x, static_broadcasted_argnums=1)(ones(N)),
        ValueError,
        "was called with only 1 positional argument.",
    ),
    "static and donated": (
        lambda: shardlift.pmap(second, static_broadcasted_argnums=1, donate_argnums=(0, 1)),
        ValueError,
        "arguments [1] are both in static_broadcasted_argnums and in donate_argnums",
    ),
    "not callable": (lambda: shardlift.pmap(3), TypeError, "Expected a callable value"),
    "generator": (lambda: shardlift.pmap(lambda: (yield)), TypeError, "generator function"),
    "reshard": (
        lambda: shardlift.pmap(identity, reshard="maybe"),
        ValueError,
        "must be one of ('error', 'warn', 'silent')",
    ),
}


@pytest.mark.parametrize("case", CALLS)
def test_message(case):
    call, kind, text = CALLS[case]
    with pytest.raises(kind) as caught:
        call()
    assert text in str(caught.value)
    assert caught.value.__context__ is None or caught.value.__suppress_context__


def test_negative_argnums_are_counted_from_the_end():
    f = shardlift.pmap(lambda x, s: x * s, static_broadcasted_argnums=-1)
    np.testing.assert_array_equal(f(ones(N), 3), ones(N) * 3)
    with pytest.raises(ValueError, match="count from the front"):
        shardlift.pmap(lambda *xs: xs[0], donate_argnums=-1)


def test_an_error_leaves_the_function_usable():
    f = shardlift.pmap(second)
    f(ones(N), ones(N))
    with pytest.raises(ValueError, match="inconsistent sizes"):
        f(ones(N), ones(16))
    with pytest.raises(ValueError, match="inconsistent sizes"):
        f(ones(N), ones(7))
    np.testing.assert_array_equal(f(ones(N), ones(N) * 2), ones(N) * 2)


def test_a_users_own_exception_comes_through_as_it_is_and_once():
    calls = []

    def body(x):
        calls.append(x.shape)
        if x.ndim:
            raise KeyError("mine")
        return x

    f = shardlift.pmap(body)
    f(ones(N))
    for _ in range(2):
        calls.clear()
        with pytest.raises(KeyError, match="mine") as caught:
            f(ones(N, 2))
        assert caught.value.__context__ is None
        assert calls == [(2,)]


MESSAGES = {
    "incompatible-devices": "Received incompatible devices for jitted computation. Got argument a",
    "context-mesh": "The context mesh AbstractMesh('x': 1, axis_types=(Manual,)) should match the "
    "mesh passed to shard_map Mesh('y': 4, axis_types=(Auto,))",
    "copy-arrays": "INVALID_ARGUMENT: CopyArrays only supports destination device list of the same "
    "size as the array device lists.",
    "core-halted": "INTERNAL: Core halted unexpectedly: Assertion args: 0x00000000",
}


def test_the_catalogue_knows_the_errors_of_the_guide():
    for name, message in MESSAGES.items():
        assert hint_for(RuntimeError(message)).name == name
    assert hint_for(RuntimeError("out of memory")) is None
    for hint in catalogue():
        assert re.compile(hint.pattern)
        assert hint.cause.endswith(".")
        assert hint.fix.endswith(".")


def test_a_compiled_program_called_with_other_arrays_has_its_hint():
    compiled = shardlift.pmap(identity).lower(ones(N)).compile()
    with pytest.raises(TypeError) as caught:
        compiled(ones(N, 2))
    assert hint_for(caught.value).name == "lowered-host-local"


def test_a_known_jax_error_gets_its_hint():
    elsewhere = jax.device_put(ones(N), jax.devices()[0])
    total = jax.grad(lambda x: shardlift.pmap(identity)(x).sum())
    with pytest.raises(ValueError, match="[Ii]ncompatible devices") as caught:
        total(elsewhere)
    assert "shardlift: incompatible-devices" in caught.value.__notes__[0]


def test_inside_a_shard_map_of_the_users_own_it_is_a_vmap():
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("outer",))
    specs = {"in_specs": jax.P("outer"), "out_specs": jax.P("outer"), "check_vma": False}
    total = shardlift.pmap(lambda x: jax.lax.psum(x, ("i", "outer")), "i")
    inside = jax.shard_map(total, mesh=mesh, **specs)
    for call in (inside, jax.jit(inside)):
        np.testing.assert_array_equal(call(ones(4)), np.full(4, 4))


def test_a_users_own_exception_is_not_taken_for_a_misplaced_input():
    calls = []

    def body(x):
        calls.append(1)
        raise LookupError("mine")

    elsewhere = jax.device_put(ones(N), jax.devices()[3])
    for policy in ("error", "silent"):
        calls.clear()
        with pytest.raises(LookupError, match="mine"):
            shardlift.pmap(body, reshard=policy)(elsewhere)
        assert calls == [1]
