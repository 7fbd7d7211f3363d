"""How right is `shardlift plan`? Plans from a run on 2 devices, against XLA's programs on 2 to 16.

    python -m bench.plan

For each number of devices a child process compiles the same steps and prints what XLA says of
them: the bytes of arguments and outputs on a device (``memory_analysis``), and the collectives in
the optimised program, from which the bytes that a device sends follow.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SIZES = (2, 4, 8, 16)
_SHAPE = re.compile(r"(pred|[a-z]+\d+)\[([\d,]*)\]")
_OPERATION = re.compile(
    r"= (?P<result>.*?) (?P<kind>all-reduce|all-gather|reduce-scatter|all-to-all|"
    r"collective-permute)(?:-start)?\("
)


def measure(record: str) -> dict[str, Any]:
    """Run and record the steps on the devices of this process, and ask XLA about them."""
    import jax
    import numpy as np
    from jax import lax

    import shardlift
    from shardlift.facts import Recorder

    n = jax.local_device_count()

    def train(params, batch, rate):
        def loss(p):
            return (jax.numpy.tanh(batch @ p["w"]) @ p["v"]).var()

        value, grads = jax.value_and_grad(loss)(params)
        grads = lax.pmean(grads, "i")
        return jax.tree.map(lambda p, g: p - rate * g, params, grads), lax.pmean(value, "i")

    def gather(x):
        return lax.all_gather(x, "i").sum(0)

    def exchange(x):
        return lax.ppermute(x, "i", [(k, (k + 1) % n) for k in range(n)]) * 2

    def scatter(x):
        return lax.psum_scatter(x, "i", tiled=True)

    def swap(x):
        return lax.all_to_all(x, "i", 0, 0)

    rng = np.random.default_rng(0)
    params = {"w": rng.normal(size=(64, 32)), "v": rng.normal(size=(32,))}
    stacked = {k: np.tile(v.astype(np.float32), (n,) + (1,) * v.ndim) for k, v in params.items()}
    batch = rng.normal(size=(n, 16, 64)).astype(np.float32)
    long = rng.normal(size=(n, 2048)).astype(np.float32)
    calls = {
        train: (stacked, batch, np.full(n, 0.1, np.float32)),
        gather: (long,),
        exchange: (long,),
        scatter: (long,),
        swap: (rng.normal(size=(n, n, 256)).astype(np.float32),),
    }
    recorder, found = Recorder(plan_for=SIZES), {}
    with recorder.observing():
        recorded = recorder.pmap(shardlift.pmap)
        for step, arguments in calls.items():
            mapped = recorded(step, axis_name="i")
            for _ in range(3):
                jax.block_until_ready(mapped(*arguments))
            compiled = shardlift.pmap(step, axis_name="i").lower(*arguments).compile()
            memory = compiled.memory_analysis()
            found[step.__name__] = {
                "arguments": memory.argument_size_in_bytes,
                "outputs": memory.output_size_in_bytes,
                "sent": sent_bytes(compiled.as_text(), n),
            }
        recorder.write(record)
    return found


def sent_bytes(program: str, n: int) -> float:
    """Bytes that a device sends, from the text of an optimised program."""
    total = 0.0
    for match in _OPERATION.finditer(program):
        nbytes = sum(map(_nbytes, _SHAPE.findall(match["result"])))
        total += (
            nbytes
            * {
                "all-reduce": 2 * (n - 1) / n,
                "all-gather": (n - 1) / n,
                "reduce-scatter": float(n - 1),
                "all-to-all": (n - 1) / n,
                "collective-permute": 1.0,
            }[match["kind"]]
        )
    return total


def _nbytes(shape: tuple[str, str]) -> int:
    bits = re.search(r"\d+", shape[0])
    sizes = [int(size) for size in shape[1].split(",") if size]
    return math.prod(sizes) * (int(bits[0]) if bits else 8) // 8


def in_child(devices: int, record: str) -> dict[str, Any]:
    """Measure in a process with so many devices."""
    env = os.environ | {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": str(devices)}
    command = [sys.executable, "-m", "bench.plan", record]
    done = subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=200, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


Row = tuple[str, int, str, float, tuple[float, ...]]


def compare(folder: Path) -> list[Row]:
    """Step, devices, what; measured, and planned in each of three ways."""
    from shardlift.facts import read
    from shardlift.report.scaling import plan_site

    measured = {n: in_child(n, str(folder / f"{n}.json")) for n in SIZES}
    first, second = (read(folder / f"{n}.json").sites for n in SIZES[:2])
    rows = []
    for site, also in zip(first, second, strict=True):
        for n in SIZES:
            alone = dataclasses.replace(site, larger=())
            plans = plan_site(alone, n), plan_site(alone, n, also=also), plan_site(site, n)
            for what in ("arguments", "outputs", "sent"):
                planned = tuple(_planned(plan, what) for plan in plans)
                real = float(measured[n][site.function][what])
                rows.append((site.function, n, what, real, planned))
    return rows


def _planned(plan: Any, what: str) -> float:
    if what == "sent":
        return float(sum(transfer.sent for transfer in plan.transfers))
    return float(getattr(plan, what))


def error_of(planned: float, real: float) -> float:
    """The relative error."""
    return abs(planned - real) / real if real else float(planned != 0)


def main() -> None:
    """Print a table."""
    with tempfile.TemporaryDirectory() as folder:
        rows = compare(Path(folder))
    print("| step | devices | bytes | XLA | from 2 | from 2 and 4 | from 2, lowered |")
    print("|---|---:|---|---:|---:|---:|---:|")
    for step, n, what, real, planned in rows:
        errors = [f"{one:.0f} ({100 * error_of(one, real):.1f} %)" for one in planned]
        print(f"| {step} | {n} | {what} | {real:.0f} | {' | '.join(errors)} |")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measure(sys.argv[1])))
    else:
        main()
