"""The time of a call of what `migrate` writes, against jax.pmap, shardlift.pmap and the limit.

    python -m bench.migrated_calls [--devices 8]
    shardlift run --quiet --no-patch --processes 2 --devices 4 bench/migrated_calls.py

The function adds 1 to every leaf of its state, so that next to nothing is computed; the state that
it returns goes into the next call. The contenders take turns, and the best round of each counts.
"unmapped" has a state with in_axes=None, on one device. Of many processes, process 0 prints.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

LEAVES = (1, 50, 400)
ROUNDS = 9


def step(state: Any, batch: Any) -> Any:
    """Next to nothing."""
    import jax

    return jax.tree.map(lambda x: x + 1, state), batch


def written(*features: str) -> Callable[..., Any]:
    """`spmd_map` as `migrate` writes it for sites that need these features."""
    from shardlift.migrate.helpers import emit
    from shardlift.migrate.spmd_map import Feature, request

    names: dict[str, Any] = {"__name__": "written"}
    exec(emit([request(map(Feature, features), "i")]), names)
    mapping: Callable[..., Any] = names["spmd_map"]
    return mapping


def contenders(leaves: int) -> dict[str, Callable[[], Any]]:
    """The calls to compare."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    import shardlift

    devices, many = jax.local_devices(), jax.process_count() > 1
    mesh = jax.sharding.Mesh(np.array(devices), ("i",))
    rows = jax.NamedSharding(mesh, jax.P("i"))
    batch = jax.device_put(np.ones((len(devices), 4), np.float32), rows)
    state = jax.device_put({str(k): np.asarray(batch) for k in range(leaves)}, rows)
    alone = {str(k): jnp.ones(4) for k in range(leaves)}
    mapped = {
        "jax.pmap": jax.pmap(step, "i"),
        "shardlift.pmap": shardlift.pmap(step, "i"),
        "migrated": written(*(["processes"] if many else []))(step, "i"),
    }
    if many:
        return {name: _training(call, state, batch) for name, call in mapped.items()}
    spec = jax.P("i")
    mapped["jit(shard_map)"] = jax.jit(
        jax.shard_map(step, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
    )
    axes: dict[str, Any] = {"in_axes": (None, 0)}
    unmapped = {
        "jax.pmap, unmapped": jax.pmap(step, "i", **axes),
        "migrated, unmapped": written("in_axes", "unmapped")(step, "i", **axes),
    }
    calls = {name: _training(call, state, batch) for name, call in mapped.items()}
    return calls | {name: (lambda c=call: c(alone, batch)) for name, call in unmapped.items()}


def _training(call: Callable[..., Any], state: Any, batch: Any) -> Callable[[], Any]:
    """A call that passes on what the call before returned."""
    states = [state]

    def train() -> Any:
        states[0], _ = call(states[0], batch)
        return states[0]

    return train


def best_times(calls: dict[str, Callable[[], Any]], count: int) -> dict[str, float]:
    """Microseconds per call, the best of several rounds that are interleaved."""
    import jax

    best = dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS):
        for name, call in calls.items():
            start = time.perf_counter()
            for _ in range(count):
                out = call()
            jax.block_until_ready(out)
            best[name] = min(best[name], (time.perf_counter() - start) / count * 1e6)
    return best


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--devices", type=int, help="virtual CPU devices")
    given = parser.parse_args()
    if given.devices:
        os.environ["JAX_NUM_CPU_DEVICES"] = str(given.devices)
        os.environ["JAX_PLATFORMS"] = "cpu"
    import jax

    for leaves in LEAVES:
        best = best_times(contenders(leaves), 20 if leaves > 100 else 100)
        if jax.process_index() == 0:
            listed = ", ".join(f"{name} {us:.0f}" for name, us in best.items())
            print(f"{leaves} leaves, µs per call: {listed}", flush=True)


if __name__ == "__main__":
    main()
