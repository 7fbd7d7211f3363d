"""Programs as they were written with libraries that hold pmap, or know its outputs.

Each is skipped where its library is not installed.
"""

from __future__ import annotations

import functools
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shardlift

N = jax.local_device_count()
pytestmark = [
    pytest.mark.libraries,
    pytest.mark.filterwarnings("default"),  # of the libraries
]


@pytest.fixture(autouse=True)
def inside():
    # Strict promotion, as this suite has it, is not what these libraries were written for.
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        with shardlift.legacy() as uses:
            yield uses


def test_equinox_takes_part(inside):
    eqx = pytest.importorskip("equinox")

    @functools.partial(eqx.filter_pmap, in_axes=(None, 0), out_axes=None, axis_name="d")
    def step(model, x):
        grads = eqx.filter_grad(lambda m: jnp.sum(jax.vmap(m)(x)))(model)
        return eqx.apply_updates(model, jax.lax.pmean(grads, "d"))

    model = eqx.nn.Linear(3, 1, key=jax.random.PRNGKey(0))
    for _ in range(2):
        after = step(model, jnp.ones((N, 2, 3)))
    np.testing.assert_allclose(after.bias, model.bias + 2)
    assert inside["jax.pmap"] > 0


def test_nnx_takes_part(inside):
    nnx = pytest.importorskip("flax.nnx")
    linear = nnx.Linear(3, 4, rngs=nnx.Rngs(0))
    axes = nnx.StateAxes({...: None})

    @nnx.pmap(in_axes=(axes, 0), out_axes=0, axis_name="d")
    def forward(model, x):
        return jax.lax.psum(model(x), "d")

    out = forward(linear, jnp.ones((N, 2, 3)))
    np.testing.assert_allclose(out[0], N * linear(jnp.ones((2, 3))), rtol=1e-5)
    assert inside["jax.pmap"] == 1


def test_a_training_loop_of_flax():
    jax_utils = pytest.importorskip("flax.jax_utils")
    from flax.training import common_utils

    def step(params, batch):
        grads = jax.grad(lambda p: jnp.mean((batch["x"] @ p) ** 2))(params)
        params = params - 0.1 * jax.lax.pmean(grads, "batch")
        return params, {"norm": jax.lax.pmean(jnp.linalg.norm(params), "batch")}

    params = jax_utils.replicate(jnp.ones(3))
    batches = (common_utils.shard({"x": np.ones((2 * N, 3), "f")}) for _ in range(3))
    seen = []
    mapped = jax.pmap(step, axis_name="batch", donate_argnums=(0,))
    for batch in jax_utils.prefetch_to_device(batches, 2):
        params, metrics = mapped(params, batch)
        seen.append(metrics)
    assert common_utils.get_metrics(seen)["norm"].shape == (3,)
    last = jax.devices()[-1]
    one = jax_utils.unreplicate(params) + jax.device_put(jnp.zeros(3), last)
    np.testing.assert_allclose(one, np.asarray(params)[-1])

    predict = jax_utils.pad_shard_unpad(jax.pmap(lambda p, x: x @ p), static_argnums=(0,))
    assert predict(params, np.ones((2 * N - 1, 3), "f")).shape == (2 * N - 1,)


def test_chex_knows_a_pmapped_function_and_its_output():
    chex = pytest.importorskip("chex")
    out = jax.pmap(lambda x: x + 1)(jnp.ones((N, 2)))
    chex.assert_tree_is_sharded(out, devices=jax.local_devices())
    chex.assert_tree_is_on_device(out[N - 1], device=jax.local_devices()[N - 1])
    with pytest.raises(ValueError, match="must not wrap"):
        chex.assert_max_traces(jax.pmap(lambda x: x), n=1)
    with chex.fake_pmap():
        assert jax.pmap(lambda x: jax.lax.psum(x, "i"), "i")(jnp.ones((N + 3, 2)))[0, 0] == N + 3


def test_haiku_makes_parameters_on_all_devices():
    hk = pytest.importorskip("haiku")

    def forward(x):
        w = hk.get_parameter("w", [3, 2], init=hk.initializers.RandomNormal())
        return hk.BatchNorm(True, True, 0.9, cross_replica_axis="i")(x @ w, True)

    net = hk.transform_with_state(forward)
    keys = jnp.broadcast_to(jax.random.PRNGKey(0), (N, 2))
    params, state = jax.pmap(net.init, axis_name="i")(keys, jnp.ones((N, 4, 3)))
    x = jnp.arange(N * 12.0).reshape(N, 4, 3)
    out, _ = jax.pmap(net.apply, axis_name="i")(params, state, keys, x)
    np.testing.assert_allclose(np.asarray(out).mean((0, 1)), 0, atol=1e-4)
    alone = jax.tree_map(lambda leaf: leaf[0], (params, state))
    assert hk.data_structures.tree_size(alone) * N == hk.data_structures.tree_size((params, state))


def test_parallel_chains_of_numpyro():
    numpyro = pytest.importorskip("numpyro")
    from numpyro.infer import MCMC, NUTS

    def model():
        numpyro.sample("x", numpyro.distributions.Normal(3.0, 0.1))

    chains = MCMC(
        NUTS(model),
        num_warmup=20,
        num_samples=20,
        num_chains=N,
        chain_method="parallel",
        progress_bar=False,
    )
    chains.run(jax.random.PRNGKey(0))
    assert chains.get_samples(group_by_chain=True)["x"].shape == (N, 20)
    assert abs(chains.get_samples()["x"].mean() - 3) < 0.5


def test_flax_of_2022_asks_for_levels_of_traces(monkeypatch):
    """A stand-in: that flax asks ``trace.level``, and the backend for the order of its devices."""

    def fail(*_):
        raise AttributeError

    tracers, utils = types.ModuleType("flax.core.tracers"), types.ModuleType("flax.jax_utils")
    tracers.trace_level = tracers.check_trace_level = fail
    utils._pmap_device_order = fail
    for module in (tracers, utils):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    with _afresh():
        tracers.check_trace_level(tracers.trace_level(object()))
        assert utils._pmap_device_order() == jax.local_devices()
    assert tracers.trace_level is tracers.check_trace_level is utils._pmap_device_order is fail


class _afresh:  # noqa: N801
    """``legacy()`` put in anew, although a test is inside one."""

    def __enter__(self):
        from shardlift._legacy import indexing
        from shardlift._legacy.patches import Patches

        self.patches = Patches()
        indexing.restore_library_reads(self.patches, None, patch=True)

    def __exit__(self, *_):
        self.patches.undo()
