"""What grows with the job: first call, dispatch, size of the record, time to merge it.

    python -m bench.growth

Devices are virtual, processes are local: on a machine with fewer cores they take turns, and the
first call, which computes, grows for that reason alone. Dispatch is the time of a call until it
returns, best of many, in the slowest process. Merging is timed on copies of one part, in CPU
seconds.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

DEVICES = (1, 2, 4, 8, 16, 32, 64)
PROCESSES = (1, 2, 4, 8, 16)
MERGED = (1, 2, 4, 8, 16, 64)
REPEAT = 3
PROGRAM = """
import json, time
import jax, jax.numpy as jnp, numpy as np

def train(params, batch):
    def loss(p):
        return jnp.mean((jnp.tanh(batch @ p["w"]) @ p["v"]) ** 2)
    grads = jax.lax.pmean(jax.grad(loss)(params), "i")
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)

n = jax.local_device_count()
step = jax.pmap(train, axis_name="i")
params = {"w": np.ones((n, 16, 8), np.float32), "v": np.ones((n, 8), np.float32)}
batch = np.ones((n, 4, 16), np.float32)
began = time.perf_counter()
params = jax.block_until_ready(step(params, batch))
first = time.perf_counter() - began
batch = step(params, batch)["w"][:, :4].repeat(2, 2)  # on the devices
times = []
for _ in range(40):
    began = time.perf_counter()
    params = step(params, batch)
    times.append(time.perf_counter() - began)
    jax.block_until_ready(params)
print(json.dumps({"first": first, "dispatch": min(times)}), flush=True)
"""


class Row(NamedTuple):
    """One job: seconds of the first call and of a dispatch, bytes of its record."""

    processes: int
    devices: int  # of each process
    first: float
    dispatch: float
    size: int


def run_job(processes: int, devices: int, folder: Path) -> Row:
    """Run a recorded job; the slowest process counts."""
    program, record = folder / "program.py", folder / "run.json"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "shardlift.cli", "run", "--quiet", "--record", str(record)]
    command += ["--processes", str(processes), "--devices", str(devices), str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=True)
    texts = [line[line.index("{") :] for line in done.stdout.splitlines() if '"first"' in line]
    told = [json.loads(text) for text in texts]
    first, dispatch = (max(one[name] for one in told) for name in ("first", "dispatch"))
    return Row(processes, devices, first, dispatch, record.stat().st_size)


def best_of(processes: int, devices: int) -> Row:
    """The best of several jobs, figure by figure."""
    rows = []
    for _ in range(REPEAT):
        with tempfile.TemporaryDirectory() as folder:
            rows.append(run_job(processes, devices, Path(folder)))
    first, dispatch, size = (min(getattr(row, name) for row in rows) for name in Row._fields[2:])
    return Row(processes, devices, first, dispatch, size)


def merge_seconds(parts: int) -> tuple[float, int]:
    """How long it takes to merge so many copies of one part, and how large the whole is."""
    from shardlift.capture.files import read, write
    from shardlift.capture.parts import merge_parts, part_path

    with tempfile.TemporaryDirectory() as folder:
        run_job(1, 1, Path(folder))
        one = read(Path(folder) / "run.json")
        record, times = os.path.join(folder, "whole.json"), []
        for _ in range(REPEAT):
            for k in range(parts):
                process = dataclasses.replace(one.processes[0], index=k, count=parts)
                sites = [dataclasses.replace(site, processes=(k,)) for site in one.sites]
                part = dataclasses.replace(
                    one, processes=(process,), sites=tuple(sites), job="growth"
                )
                write(part, part_path(record, k))
            began = time.process_time()  # it computes, and reads small files
            merge_parts(record)
            times.append(time.process_time() - began)
            size = os.path.getsize(record)
            os.remove(record)
    return min(times), size


def main() -> None:
    """Print three tables, with ratios to the first row of each."""
    jobs = ([(1, n) for n in DEVICES], [(n, 1) for n in PROCESSES])
    for title, sizes in zip(("devices in one process", "processes of one device"), jobs):  # noqa: B905
        print(f"\n| {title} | dispatch | first call | record |\n|---:|---:|---:|---:|")
        base: Row | None = None
        for size in sizes:
            row = best_of(*size)
            base = base or row
            print(
                f"| {max(size)} | {1e6 * row.dispatch:.0f} µs ({row.dispatch / base.dispatch:.1f}) "
                f"| {row.first:.2f} s ({row.first / base.first:.1f}) "
                f"| {row.size:,} B ({row.size / base.size:.2f}) |",
                flush=True,
            )
    print("\n| parts | merging | record |\n|---:|---:|---:|")
    for parts in MERGED:
        seconds, size = merge_seconds(parts)
        print(f"| {parts} | {1e3 * seconds:.1f} ms | {size:,} B |", flush=True)


if __name__ == "__main__":
    main()
