"""The time of a call of what `migrate` writes, against jax.pmap, shardlift.pmap and the limit.

    python -m bench.migrated_calls [--devices 8]

A step adds 1 to every leaf of its state, and its state goes into the next call. An evaluation takes
a tree with in_axes=None: parameters that lie on one device, or on all, and returns a number per
device. Next to nothing is computed. The contenders take turns, and the best round of each counts;
what is printed are ratios to the bare jit(shard_map).
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

LEAVES = (10, 100, 400)
ROUNDS = 15
BARE = "jit(shard_map)"
_Calls = dict[str, Callable[[], Any]]


def step(state: Any, batch: Any) -> Any:
    """Next to nothing."""
    import jax

    return jax.tree.map(lambda x: x + 1, state), batch


def evaluate(params: Any, batch: Any) -> Any:
    """A number for each device."""
    return sum(x.sum() for x in params.values()) + batch.sum()


def written(*needs: str) -> Callable[..., Any]:
    """`spmd_map` as `migrate` writes it for sites that need this."""
    from shardlift.rewrite.helpers import emit
    from shardlift.source.model import HelperRequest

    names: dict[str, Any] = {"__name__": "written"}
    exec(emit([HelperRequest("spmd_map", frozenset(needs), "i")]), names)
    mapping: Callable[..., Any] = names["spmd_map"]
    return mapping


def contenders(leaves: int) -> dict[str, _Calls]:
    """The calls to compare, by what they do."""
    import jax
    import numpy as np

    import shardlift

    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("i",))
    rows, whole = jax.NamedSharding(mesh, jax.P("i")), jax.NamedSharding(mesh, jax.P())
    batch = jax.device_put(np.ones((mesh.size, 4), np.float32), rows)
    state = jax.device_put({str(k): np.asarray(batch) for k in range(leaves)}, rows)
    params = {str(k): np.ones(4, np.float32) for k in range(leaves)}
    loose, placed = jax.tree.map(jax.numpy.asarray, params), jax.device_put(params, whole)
    fixed = jax.device_put(params, jax.devices()[0])

    def bare(function: Callable[..., Any], first: jax.P) -> Callable[..., Any]:
        specs = (first, jax.P("i"))
        mapped = jax.shard_map(
            function, mesh=mesh, in_specs=specs, out_specs=jax.P("i"), check_vma=False
        )
        return jax.jit(mapped)

    pmaps = {"jax.pmap": jax.pmap, "shardlift.pmap": shardlift.pmap, "migrated": written()}
    steps = {name: pmap(step, "i") for name, pmap in pmaps.items()}
    steps |= {BARE: bare(step, jax.P("i")), "migrated, axes": written("axes")(step, "i")}
    pmaps["migrated"] = written("axes")
    evaluations = {n: pmap(evaluate, "i", in_axes=(None, 0)) for n, pmap in pmaps.items()}
    evaluations[BARE] = bare(lambda p, b: evaluate(p, b)[None], jax.P())

    def given(params: Any) -> _Calls:
        # Parameters that are fixed to one device are refused by the bare call.
        own = {**evaluations, BARE: lambda _, b: evaluations[BARE](placed, b)}
        calls = own if params is fixed else evaluations
        return {name: (lambda c=call: c(params, batch)) for name, call in calls.items()}

    return {
        "step": {name: _training(call, state, batch) for name, call in steps.items()},
        "evaluation": given(loose),
        "evaluation, on all devices": given(placed),
        "evaluation, fixed to one device": given(fixed),
    }


def _training(call: Callable[..., Any], state: Any, batch: Any) -> Callable[[], Any]:
    """A call that passes on what the call before returned."""
    states = [state]

    def train() -> Any:
        states[0], _ = call(states[0], batch)
        return states[0]

    return train


def best_times(calls: _Calls, count: int) -> dict[str, float]:
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

    print(f"jax {jax.__version__}, {jax.device_count()} x {jax.devices()[0].device_kind}")
    for leaves in LEAVES:
        for kind, calls in contenders(leaves).items():
            best = best_times(calls, 10 if leaves > 100 else 30)
            bare = best.pop(BARE)
            listed = ", ".join(f"{name} {us / bare:.2f}" for name, us in best.items())
            print(f"{leaves} leaves, {kind}: {bare:.0f} µs bare; {listed}", flush=True)


if __name__ == "__main__":
    main()
