"""`shardlift.replication` in jobs of real processes."""

from __future__ import annotations

import pytest

from .harness import run_processes

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]


def claims():
    import functools

    import jax
    import jax.numpy as jnp
    from jax import lax

    import shardlift

    x = jnp.ones(jax.local_device_count())
    plain = shardlift.replication(shardlift.pmap(lambda v: lax.pmean(v, "i"), "i"), x)
    numbers = {
        "literal": float(jax.process_index()),
        "array": jnp.full(3, jax.process_index()),
        "number of devices": float(jax.local_devices()[0].id),
    }

    def body(number, v):
        return lax.pmean(v, "i") + number

    own = {}
    for name, number in numbers.items():
        body_of_process = functools.partial(body, number)
        own[name] = str(shardlift.replication(shardlift.pmap(body_of_process, "i"), x))
    return plain.proven, own


def test_a_number_of_a_process_is_not_the_same_on_all_devices() -> None:
    for result in run_processes(claims, processes=2, devices=2):
        plain, own = result.value
        assert plain
        for said in own.values():
            assert f"is computed by another program on process {1 - result.process}" in said
