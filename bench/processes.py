"""Dispatch in a job of many processes: state fed back, nothing computed.

Real processes on this machine, with gloo between them; what a call costs in the slowest counts.
"""

from __future__ import annotations

import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.harness import JAX, LIMIT, ROOT, SLACK, Bench, Row, child_environment, row

LOCAL, GLOBAL = "shardlift.pmap", 'shardlift.pmap(view="global")'
FLOOR = "floor"  # what a local call cannot do without
Times = dict[str, float]


def measure(leaves: int, seconds: float) -> Times:
    """Microseconds of a call of each contender in this process, in turns with the others."""
    import jax
    import numpy as np
    from jax import lax
    from jax.sharding import Mesh, NamedSharding
    from jax.sharding import PartitionSpec as P

    import shardlift
    from shardlift import _compat

    def step(state: Any) -> Any:
        return jax.tree.map(lambda x: x + 1, state)

    def block(state: Any) -> Any:
        out = step(jax.tree.map(lambda x: lax.squeeze(x, [0]), state))
        return jax.tree.map(lambda x: lax.expand_dims(x, [0]), out)

    mesh = Mesh(np.array(jax.devices()), ("i",))
    mapped = jax.shard_map(block, mesh=mesh, in_specs=P("i"), out_specs=P("i"), check_vma=False)
    rows = NamedSharding(mesh, P("i"))
    here = {f"{k}": np.ones((jax.local_device_count(), 4), np.float32) for k in range(leaves)}
    everywhere = shardlift.stitch(here, mesh, P("i"))
    limit = jax.jit(mapped, in_shardings=rows, out_shardings=rows)
    mine = NamedSharding(Mesh(np.array(jax.local_devices()), ("i",)), P("i"))
    local_type = _compat.view_type(everywhere["0"], here["0"].shape)

    def with_views(state: Any) -> Any:
        out = limit(state)
        for leaf in out.values():
            _compat.rewrap_as(leaf, local_type, mine)
        return out

    contenders: dict[str, tuple[Callable[[Any], Any], Any]] = {
        LIMIT: (limit, everywhere),
        FLOOR: (with_views, everywhere),
        GLOBAL: (shardlift.pmap(step, "i", view="global"), everywhere),
        LOCAL: (shardlift.pmap(step, "i"), here),
        JAX: (jax.pmap(step, "i"), here),
    }
    states = {name: call(call(state)) for name, (call, state) in contenders.items()}
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(max(10, int(seconds * 1e6 / (leaves * 60)))):
        for name, (call, _) in contenders.items():
            began = time.perf_counter()
            for _ in range(4):
                states[name] = call(states[name])
            times[name].append((time.perf_counter() - began) / 4)
            jax.block_until_ready(states[name])
    return {
        name: 1e6 * statistics.quantiles(found, n=10, method="inclusive")[0]
        for name, found in times.items()
    }


def run_job(processes: int, devices: int, leaves: int, seconds: float) -> Times:
    """Start a job; the slowest process counts."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with tempfile.TemporaryDirectory() as folder:
        outs = [Path(folder) / f"{k}.json" for k in range(processes)]
        environment = {
            **child_environment(devices),
            "JAX_PLATFORMS": "cpu",
            "JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo",
        }
        command = [sys.executable, "-m", "bench.processes", "--child"]
        jobs = [
            subprocess.Popen(
                [*command, address, str(processes), str(k), str(leaves), str(seconds), str(out)],
                env=environment,
                cwd=ROOT,
            )
            for k, out in enumerate(outs)
        ]
        try:
            if any(job.wait(timeout=300) for job in jobs):
                raise RuntimeError(f"a process of the job {processes}x{devices} failed")
        finally:
            for job in jobs:
                job.kill()
        found = [json.loads(out.read_text()) for out in outs]
    return {name: max(times[name] for times in found) for name in found[0]}


def child(address: str, processes: str, process: str, leaves: str, seconds: str, out: str) -> None:
    """One process of a job."""
    import jax

    jax.distributed.initialize(address, int(processes), int(process))
    times = measure(int(leaves), float(seconds))
    Path(out).write_text(json.dumps(times))


TITLE = "Dispatch in many processes"
ABOUT = (
    "Microseconds until a call returns in the slowest process, its state fed back. "
    '`view="global"` takes and returns global arrays, as the bare `jit(shard_map)` does, to '
    "which the ratios are; the other two take and return the rows of this process, for "
    "which *floor* makes a view of each output and nothing else. Devices are those of one "
    "process."
)
TARGET = "the global view no slower than the limit (by more than 5%), the local one than `jax.pmap`"
PROCESSES, LEAVES = (2, 4), (1, 100, 400)


def met(row: Row, devices: int) -> bool:
    """Is the row within the target?"""
    best = row["best"]
    return best[GLOBAL] <= SLACK * best[LIMIT] and best[LOCAL] <= SLACK * best[JAX]


def run(devices: int, quick: bool) -> list[Row]:
    """Jobs whose processes have so many devices each."""
    seconds = 0.2 if quick else 2.0
    return [
        row(f"{processes} processes", leaves, run_job(processes, devices, leaves, seconds))
        for processes in (PROCESSES[:1] if quick else PROCESSES)
        for leaves in (LEAVES[:1] if quick else LEAVES)
    ]


BENCH = Bench(
    TITLE, ABOUT, TARGET, run, met, contenders=(LIMIT, GLOBAL, FLOOR, LOCAL, JAX),
    ours=(GLOBAL, LOCAL), devices=(1, 4), everywhere=False,
)  # fmt: skip


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:])
    else:
        from bench.__main__ import main

        sys.exit(main(["processes"]))
