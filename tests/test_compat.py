"""The private way and the public way say the same."""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shardlift import _compat


@pytest.mark.parametrize("make", [_compat._tracing_public, _compat._tracing_private])
def test_tracing(make):
    tracing = make()
    seen = {}

    def look(name, x):
        seen[name] = tracing()
        return (x * 2).sum()

    x = jnp.ones(3)
    look("outside", x)
    jax.jit(lambda x: look("jit", x))(x)
    jax.grad(lambda x: look("grad", x))(x)
    jax.vmap(lambda x: look("vmap", x))(x)
    jax.lax.map(lambda x: look("scan", x), x)
    jax.eval_shape(lambda x: look("eval_shape", x), x)
    inside = {"jit": True, "grad": True, "vmap": True, "scan": True, "eval_shape": True}
    assert seen == {"outside": False, **inside}
    assert tracing() is False


def test_made_while_tracing_it_still_knows_outside():
    made = []
    jax.jit(lambda x: (made.append(_compat._tracing_public()), x)[1])(jnp.ones(3))
    assert made[0]() is False


def test_raise_if_deleted():
    x = jax.device_put(np.ones(3, np.float32))
    _compat.raise_if_deleted({"a": x, "b": 1.0, "c": np.ones(2)})
    x.delete()
    with pytest.raises(RuntimeError, match=r"Array has been deleted with shape=float32\[3\]"):
        _compat.raise_if_deleted({"a": x})


def test_jit_disabled():
    assert not _compat.jit_disabled()
    with jax.disable_jit():
        assert _compat.jit_disabled()


@pytest.mark.parametrize("rewrap", [_compat._rewrap_public, _compat._rewrap_private])
def test_rewrapped_arrays_share_their_buffers(rewrap):
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("i",))
    other = jax.NamedSharding(jax.sharding.Mesh(np.array(jax.devices()), ("k",)), jax.P("k"))
    x = jax.device_put(np.arange(8.0, dtype=np.float32), jax.NamedSharding(mesh, jax.P("i")))
    y = rewrap(x, _compat.view_type(x, x.shape), other)
    assert y.sharding == other
    np.testing.assert_array_equal(y, x)
    pointers = [[s.data.unsafe_buffer_pointer() for s in a.addressable_shards] for a in (x, y)]
    assert pointers[0] == pointers[1]


def test_context_changes_with_what_jit_compares():
    private = _compat._context_private()
    outside = private()
    assert private() == outside
    with jax.default_matmul_precision("highest"):
        assert private() != outside
    with jax.debug_nans(True):
        assert private() is None  # then nothing is run past jit


def test_runner_gives_what_the_program_gives():
    x, unused = jnp.arange(3.0), jnp.ones(2)
    compiled = jax.jit(lambda x, _: (x + 1, x * 2)).lower(x, unused).compile()
    run = _compat.runner(compiled, 2)
    for got, wanted in zip(run([x, unused]), compiled(x, unused), strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_no_runner_for_a_program_with_effects():
    compiled = jax.jit(lambda x: (jax.debug.callback(print, x), x)[1]).lower(jnp.ones(2)).compile()
    assert _compat.runner(compiled, 1) is None


@pytest.mark.parametrize("missing", ["_executable", "unsafe_call", "kept_var_idx", "in_avals"])
def test_no_runner_without_the_private_names(missing):
    """Then calls convert their arrays: `tests/processes/test_local_program.py` runs both ways."""

    class Without:
        """It has the attributes of another object, at every depth, but for one."""

        def __init__(self, whole):
            self.whole = whole

        def __getattr__(self, name):
            if name == missing:
                raise AttributeError(name)
            value = getattr(self.whole, name)
            return Without(value) if name in ("_executable", "unsafe_call") else value

    compiled = jax.jit(lambda x: x + 1).lower(jnp.ones(2)).compile()
    assert _compat.runner(compiled, 1) is not None
    assert _compat.runner(Without(compiled), 1) is None


def test_no_runner_where_jit_looks_at_values():
    compiled = jax.jit(lambda x: x + 1).lower(jnp.ones(2)).compile()
    with jax.debug_nans(True):
        assert _compat.runner(compiled, 1) is None
    assert _compat.runner(compiled, 0) is None  # it takes more inputs than there are


def _equation(fun, *args, name):
    return next(e for e in jax.make_jaxpr(fun)(*args).eqns if e.primitive.name == name)


def test_scan_parts():
    def fun(w, x):
        return jax.lax.scan(lambda c, y: ((c[0] * w, c[1] + y), y), (w, w), x)

    eqn = _equation(fun, 1.0, jnp.ones(3), name="scan")
    assert _compat.scan_parts(eqn) == (1, 2)
    unknown = types.SimpleNamespace(params={"jaxpr": None}, invars=[])
    assert _compat.scan_parts(unknown) is None


def test_map_axes():
    mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(4, 2), ("i", "j"))
    mapped = jax.shard_map(
        lambda x: x, mesh=mesh, in_specs=jax.P("i"), out_specs=jax.P("i"), axis_names={"i"}
    )
    assert _compat.map_axes(_equation(mapped, jnp.ones(4), name="shard_map")) == {"i": 4}
    assert _compat.map_axes(types.SimpleNamespace(params={})) is None


def test_source_line(monkeypatch):
    def fun(x):
        return jnp.linalg.norm(x) + jax.lax.sin(x).sum()

    eqn = _equation(fun, jnp.ones(3), name="sin")
    line = (__file__, fun.__code__.co_firstlineno + 1, "test_source_line.<locals>.fun")
    file, number, function = _compat.source_line(eqn)
    assert (file, number) == line[:2]
    assert function.endswith("fun")
    assert (file, number, function) in _compat.lines_of(eqn)
    assert _compat.lines_of(object()) == []
    assert _compat._line_public(object()) is None
    # In an installed package, the line that called it; without the frames, its own.
    monkeypatch.setattr(_compat, "_line_public", lambda eqn: (np.__file__, 1, "norm"))
    assert _compat.source_line(eqn)[:2] == line[:2]
    # What is beyond shardlift's own frames called the map, and is not the function mapped.
    beyond = [(np.__file__, 1, "norm"), (_compat.__file__, 1, "map"), line]
    monkeypatch.setattr(_compat, "lines_of", lambda eqn: beyond)
    assert _compat.source_line(eqn) == (np.__file__, 1, "norm")
    monkeypatch.setattr(_compat, "lines_of", lambda eqn: [])
    assert _compat.source_line(eqn) == (np.__file__, 1, "norm")
    monkeypatch.setattr(_compat, "_line_public", lambda eqn: (_compat.__file__, 1, "unstack"))
    assert _compat.source_line(eqn) is None


def test_inner_jaxprs():
    def fun(x):
        return jax.lax.cond(x > 0, jnp.sin, jnp.cos, x)

    branches = list(_compat.inner_jaxprs(_equation(fun, 1.0, name="cond").params))
    assert {eqn.primitive.name for jaxpr in branches for eqn in jaxpr.eqns} == {"sin", "cos"}
    assert list(_compat.inner_jaxprs(_equation(jax.jit(fun), 1.0, name="jit").params))


def test_run_equation():
    def fun(x):
        return jnp.sin(x), jax.lax.top_k(x, 2)[0]

    x = jnp.arange(3.0)
    for name, wanted in (("sin", [jnp.sin(x)]), ("top_k", jax.lax.top_k(x, 2))):
        eqn = _equation(fun, x, name=name)
        # As it is, and with nothing but what is public: the primitive and its parameters.
        bare = types.SimpleNamespace(
            params=eqn.params,
            primitive=types.SimpleNamespace(
                bind=eqn.primitive.bind, multiple_results=eqn.primitive.multiple_results
            ),
        )
        for one in (eqn, bare):
            for got, expected in zip(_compat.run_equation(one, [x]), wanted, strict=True):
                np.testing.assert_array_equal(got, expected)


def test_gloo_stays_on_the_loopback_address(monkeypatch: pytest.MonkeyPatch):
    from jax._src import xla_bridge  # whoever makes the devices calls it

    monkeypatch.setattr(xla_bridge._jax, "make_gloo_tcp_collectives", lambda **given: given)
    _compat.keep_gloo_on_loopback()
    given = xla_bridge._jax.make_gloo_tcp_collectives(distributed_client="client")
    assert given == {"distributed_client": "client", "hostname": "127.0.0.1"}
    monkeypatch.delattr(xla_bridge._jax, "make_gloo_tcp_collectives")
    _compat.keep_gloo_on_loopback()  # if JAX moved it, its default stays
