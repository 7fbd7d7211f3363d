"""Placing and reading against what the migration guide offers in their place.

    python bench/placing.py [--quick]

Time: the contenders run in turn, and the best round of each counts. Memory: each contender runs
once in a process of its own; the peak is that of the process above what it held before the call,
as a multiple of the result's size. The table is printed; ``python -m bench placing`` writes it.
"""

from __future__ import annotations

import gc
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
DEVICES, MEGABYTES = 8, 64
os.environ.update(JAX_PLATFORMS="cpu", JAX_NUM_CPU_DEVICES=str(DEVICES))
sys.path.insert(0, str(HERE.parent / "src"))

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec  # noqa: E402

from shardlift import device_put_replicated, device_put_sharded, unreplicate  # noqa: E402

OURS, GUIDE = "shardlift", "guide"
ONE_COPY = "one copy"  # each byte of the result written once, and nothing else: the floor
Case = tuple[Callable[[], Any], dict[str, Callable[[Any], Any]]]


def rows() -> NamedSharding:
    return NamedSharding(Mesh(np.array(jax.devices()), ("i",)), PartitionSpec("i"))


def host(floats: int) -> Any:
    return np.ones(floats, np.float32)


def device(floats: int) -> Any:
    return jax.block_until_ready(jax.device_put(host(floats), jax.devices()[0]))


REPLICATED = {
    OURS: lambda x: device_put_replicated(x, jax.devices()),
    GUIDE: lambda x: jax.device_put(jnp.stack([x] * DEVICES), rows()),
    ONE_COPY: lambda x: [jax.device_put(x, d, may_alias=False) for d in jax.devices()],
}
SHARDED = {
    OURS: lambda xs: device_put_sharded(xs, jax.devices()),
    GUIDE: lambda xs: jax.device_put(jnp.stack(xs), rows()),
    ONE_COPY: lambda xs: [
        jax.device_put(x, d, may_alias=False) for x, d in zip(xs, jax.devices(), strict=True)
    ],
}


def cases(floats: int) -> dict[str, Case]:
    return {
        "replicated, from NumPy": (lambda: host(floats), REPLICATED),
        "replicated, from a device": (lambda: device(floats), REPLICATED),
        "sharded, from NumPy": (lambda: [host(floats) for _ in range(DEVICES)], SHARDED),
        "sharded, from a device": (lambda: [device(floats) for _ in range(DEVICES)], SHARDED),
    }


def best_of(calls: dict[str, Callable[[], Any]], rounds: int, repeats: int) -> dict[str, float]:
    """Seconds of one call, the best of ``rounds`` in which all take turns."""
    best = dict.fromkeys(calls, float("inf"))
    for call in calls.values():
        jax.block_until_ready(call())
    for _ in range(rounds):
        for name in random.sample(list(calls), len(calls)):
            gc.collect()
            start = time.perf_counter()
            for _ in range(repeats):
                out = jax.block_until_ready(calls[name]())
            best[name] = min(best[name], (time.perf_counter() - start) / repeats)
            del out
    return best


def time_placing(floats: int, rounds: int) -> list[dict[str, Any]]:
    out = []
    for case, (source, contenders) in cases(floats).items():
        x = source()
        calls = {name: (lambda f=f, x=x: f(x)) for name, f in contenders.items()}
        best = best_of(calls, rounds, 1)
        out.append(row(case, "ms", {k: 1e3 * v for k, v in best.items()}, target=0.25))
        del x, calls
    return out


def time_reading(rounds: int) -> list[dict[str, Any]]:
    x = jax.block_until_ready(device_put_replicated(np.ones(256, np.float32), jax.devices()))
    calls = {OURS: lambda: unreplicate(x), "x[0]": lambda: x[0]}
    best = best_of(calls, 5 * rounds, 50)
    return [row("unreplicate", "µs", {k: 1e6 * v for k, v in best.items()}, target=0.05)]


def row(case: str, unit: str, best: dict[str, float], target: float) -> dict[str, Any]:
    other = next(v for k, v in best.items() if k != OURS)
    ratio = best[OURS] / other
    rounded = {k: round(v, 1) for k, v in best.items()}
    return {"case": case, "unit": unit, "best": rounded, "ratio": round(ratio, 3), "target": target}


def resident(field: str) -> int:
    """A field of Linux's account of this process, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return 1024 * int(line.split()[1])
    raise LookupError(field)


def peak(case: str, name: str, floats: int) -> float:
    """The peak of one call in this process, over the size of its result."""
    small_source, contenders = cases(1024)[case]
    jax.block_until_ready(contenders[name](small_source()))
    x = cases(floats)[case][0]()
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    out = jax.block_until_ready(contenders[name](x))
    return (resident("VmHWM") - before) / out.nbytes


def memory(floats: int) -> list[dict[str, Any]]:
    out = []
    for case in cases(floats):
        best = {}
        for name in (OURS, GUIDE):
            call = [sys.executable, __file__, "--peak", case, name, str(floats)]
            best[name] = float(subprocess.run(call, check=True, stdout=-1, text=True).stdout)
        rounded = {k: round(v, 2) for k, v in best.items()}
        out.append({"case": case, "unit": "x result", "best": rounded, "target": 1.10})
    return out


def main() -> None:
    quick = "--quick" in sys.argv
    floats, rounds = (1 << 20, 2) if quick else (MEGABYTES << 18, 5)
    result = {
        "jax": jax.__version__,
        "cores": os.cpu_count(),
        "devices": DEVICES,
        "megabytes a device": floats * 4 >> 20,
        "time": time_placing(floats, rounds) + time_reading(rounds),
        "peak memory": memory(floats),
    }
    for r in result["time"]:
        print(f"{r['case']:28} {r['best']} {r['unit']}: {r['ratio']}, target {r['target']}")
    for r in result["peak memory"]:
        print(f"{r['case']:28} {r['best']} {r['unit']}, target {r['target']}")


if __name__ == "__main__":
    if "--peak" in sys.argv:
        print(peak(sys.argv[2], sys.argv[3], int(sys.argv[4])))
    else:
        main()
