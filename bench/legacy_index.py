"""``x[i]`` on a pmap's output: JAX's own against what ``shardlift.legacy`` makes of it.

``python -m bench.legacy_index``: microseconds and ratios, for rows read where they lie and for
every other kind of index, which must cost what it did.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from bench.harness import in_fresh_process, race

TARGET = 1 / 20  # of JAX's own time, for a row, on 8 devices


def measure(devices: int, seconds: float) -> dict[str, dict[str, float]]:
    """Each index by both; in this process."""
    import shardlift
    from shardlift import _compat

    array_type = _compat.array_type()
    stock = array_type.__getitem__
    with shardlift.legacy():
        ours = array_type.__getitem__
        rows = jax.pmap(lambda x: x)(np.ones((devices, 64), np.float32))
    single = jax.device_put(np.ones((devices, 64), np.float32))
    cases: dict[str, tuple[Any, Any]] = {
        "rows x[0]": (rows, 0),
        "rows x[-1]": (rows, -1),
        "rows x[np.int64]": (rows, np.int64(devices - 1)),
        "rows x[0:1]": (rows, slice(0, 1)),
        "rows x[0, 1]": (rows, (0, 1)),
        "one device x[0]": (single, 0),
        "one device x[0:1]": (single, slice(0, 1)),
    }
    found = {}
    for name, (array, index) in cases.items():
        contenders: dict[str, Callable[[], Any]] = {
            "stock": lambda a=array, k=index: stock(a, k),  # type: ignore[misc]
            "ours": lambda a=array, k=index: ours(a, k),  # type: ignore[misc]
        }
        found[name] = race(contenders, seconds, wait=False)
    return found


def main() -> None:
    """Print a table for 1 and for 8 devices."""
    from bench import legacy_index  # by its name, which a fresh process can import

    for devices in (1, 8):
        found = in_fresh_process(legacy_index.measure, devices, devices=devices, seconds=2.0)
        print(f"\n{devices} device(s)         stock µs    ours µs   ours/stock")
        for name, times in found.items():
            ratio = times["ours"] / times["stock"]
            print(f"{name:20} {times['stock']:10.1f} {times['ours']:10.1f} {ratio:12.3f}")
        if devices == 8:
            worst = max(
                t["ours"] / t["stock"]
                for n, t in found.items()
                if n[:7] == "rows x[" and n not in ("rows x[0:1]", "rows x[0, 1]")
            )
            print(f"\na row: {worst:.3f} of stock's time at most; the target is {TARGET:.3f}")


if __name__ == "__main__":
    main()
