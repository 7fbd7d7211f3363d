"""Many calls in one process, in two, and recorded: what grows?

``python -m bench.soak [--calls 100000] [--many 10000]`` runs each case in processes of its own
and prints, for every case, what was held early, half way and at the end. What holds for a
training run of days is that the last two are the same. By hand: it takes minutes.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Sample = dict[str, int]
MARK = "soak: "
HERE = Path(__file__).resolve().parents[1]


def held() -> Sample:
    """What this process holds now, in counts, and its memory in kilobytes."""
    import jax

    from shardlift.mapping import registry

    gc.collect()
    resident = next(
        int(line.split()[1])
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmRSS")
    )
    return {
        "kilobytes": resident,
        "objects": len(gc.get_objects()),
        "arrays": len(jax.live_arrays()),
        "sites": len(registry._sites),
        "threads": threading.active_count(),
        "descriptors": len(os.listdir("/proc/self/fd")),
    }


def work(
    calls: int, pmap: Callable[..., Any], samples: int = 20, shapes: int = 12
) -> Iterator[Sample]:
    """So many calls, as a program makes them; what is held after every part of them."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    n = jax.local_device_count()
    step = pmap(lambda s, x: (s + jax.lax.pmean(x, "i"), x * 2), "i", donate_argnums=(0,))
    loss = pmap(lambda x: jax.lax.psum(jnp.sum(x), "i"), "i")
    alone = jax.process_count() == 1
    state = np.zeros((n, 16), np.float32)
    batches = [np.full((n, 16), k, np.float32) for k in range(8)]
    every = max(1, calls // samples)
    for k in range(1, calls + 1):
        state, out = step(state, batches[k % 8])
        if k % 8 == 0:  # XLA gives up on collectives of many virtual devices that wait long
            jax.block_until_ready(state)
        if k % 100 == 0:
            jax.device_get(loss(out))
        if alone and k % 100 == 0:
            _odd_calls(k // 100, 1 + k // 100 % shapes, pmap, step, n)
        if k % every == 0:
            yield held()


def _odd_calls(k: int, length: int, pmap: Callable[..., Any], step: Any, n: int) -> None:
    """Other shapes, keyword arguments, errors, functions that come and go, nested pmaps."""
    import contextlib

    import numpy as np

    rows = np.ones((n, length), np.float32)
    step(rows.copy(), rows)
    pmap(lambda x: x + length)(x=rows)
    with contextlib.suppress(Exception):
        step(rows, np.ones((n + 1, length), np.float32))
    if k % 4 == 0 and n % 2 == 0:
        nested = np.ones((2, n // 2, length), np.float32)
        pmap(lambda x: pmap(lambda y: y * 2)(x))(nested)


def inside(calls: int, restored: bool) -> None:
    """The loop in this process; every sample is printed."""
    import jax

    import shardlift

    pmap = jax.pmap if restored else shardlift.pmap
    for sample in work(calls, pmap):
        if jax.process_index() == 0:
            print(MARK + json.dumps(sample), flush=True)


def case(calls: int, *launcher: str, restored: bool = False) -> list[Sample]:
    """Run the loop as a program of its own."""
    path = os.pathsep.join([str(HERE / "src"), str(HERE), os.environ.get("PYTHONPATH", "")])
    env = os.environ | {"PYTHONPATH": path, "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "4"}
    how = ["--restored"] if restored else []
    command = [sys.executable, *launcher, __file__, "--inside", str(calls), *how]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    lines = done.stdout.splitlines()
    return [json.loads(line.partition(MARK)[2]) for line in lines if MARK in line]


def main() -> None:
    """Run every case and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--many", type=int, default=10_000)
    parser.add_argument("--inside", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--restored", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        inside(options.inside, options.restored)
        return
    with tempfile.TemporaryDirectory() as folder:
        record = os.path.join(folder, "run.json")
        run = ("-m", "shardlift", "run", "-q")
        cases: dict[str, Callable[[], list[Sample]]] = {
            f"{options.calls} calls": lambda: case(options.calls),
            f"{options.calls} calls, recorded": lambda: case(
                options.calls, *run, "--record", record, restored=True
            ),
            f"{options.many} calls, two processes": lambda: case(
                options.many, *run, "--processes", "2", "--devices", "2", restored=True
            ),
        }
        print("| case | | early | half way | end |\n|---|---|---:|---:|---:|")
        for name, start in cases.items():
            found = start()
            for key in found[0]:
                row = [found[1][key], found[len(found) // 2][key], found[-1][key]]
                print(f"| {name} | {key} | {' | '.join(f'{value:,}' for value in row)} |")
                name = ""
            sys.stdout.flush()
        print(f"\nthe capture of the recorded run: {os.path.getsize(record):,} bytes")


if __name__ == "__main__":
    main()
