"""What `migrate` writes for placing and reading, against what it takes the place of.

    python bench/emitted_helpers.py [--quick]

Contenders: the emitted helpers, the guide's drop-ins, `x[0]`, and flax's own functions where flax
is installed. They run in turn and the best round of each counts; a ratio is that of the helper to
the contender, below 1 if the helper is quicker. Peak memory as in `placing.py`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import types
from collections.abc import Callable
from typing import Any

import placing as base  # sets the number of devices before JAX is imported

import jax  # isort: skip
import jax.numpy as jnp
import numpy as np

from shardlift.rewrite.helpers import emit
from shardlift.source.model import HelperRequest

try:
    from flax import jax_utils
except ImportError:
    jax_utils = None

OURS = "emitted"
NAMES = (
    *("device_put_sharded", "device_put_replicated", "replicate"),
    *("prefetch_to_device", "unreplicate"),
)
Contenders = dict[str, Callable[[], Any]]


def emitted() -> Any:
    module = types.ModuleType("emitted")
    exec(compile(emit(map(HelperRequest, NAMES)), "emitted.py", "exec"), vars(module))
    return module


def guide(shards: list[Any]) -> Any:
    return jax.tree.map(lambda *xs: jax.device_put(jnp.stack(xs), base.rows()), *shards)


def replicating() -> dict[str, Callable[[Any], Any]]:
    helpers, devices = emitted(), jax.devices()
    found = {
        OURS: lambda tree: helpers.device_put_replicated(tree, devices),
        "guide": lambda tree: guide([tree] * len(devices)),
    }
    return {**found, "flax": jax_utils.replicate} if jax_utils else found


def cases(tree: Any, batch: Any) -> dict[str, Contenders]:
    """Everything to do with a tree of values, and with a batch of rows."""
    helpers, devices = emitted(), jax.devices()
    shards = [tree] * len(devices)
    stacked = helpers.replicate(tree)
    found: dict[str, Contenders] = {
        "device_put_sharded": {
            OURS: lambda: helpers.device_put_sharded(shards, devices),
            "guide": lambda: guide(shards),
        },
        "device_put_replicated": {
            name: lambda put=put: put(tree) for name, put in replicating().items()
        },
        "unreplicate": {
            OURS: lambda: helpers.unreplicate(stacked),
            "x[0]": lambda: jax.tree.map(lambda x: x[0], stacked),
        },
        "prefetch_to_device": {
            OURS: lambda: list(helpers.prefetch_to_device(iter([batch]), 1)),
            "jnp.stack": lambda: guide(list(_rows(batch))),
        },
    }
    if jax_utils is not None:
        found["unreplicate"]["flax"] = lambda: jax_utils.unreplicate(stacked)
        found["prefetch_to_device"]["flax"] = lambda: list(
            jax_utils.prefetch_to_device(iter([batch]), 1)
        )
    return found


def _rows(batch: Any) -> Any:
    return (jax.tree.map(lambda x, i=i: x[i], batch) for i in range(base.DEVICES))


def trees(quick: bool) -> dict[str, tuple[Any, Any]]:
    small, side = (20, 512) if quick else (200, 2048)
    host = {i: np.full((16, 16), i, np.float32) for i in range(small)}
    big = np.ones((side, side), np.float32)
    few = {i: np.ones((base.DEVICES, 32), np.float32) for i in range(8)}
    images = np.ones((base.DEVICES, 2 if quick else 16, 224, 224, 3), np.float32)
    return {
        f"{small} small, NumPy": (host, few),
        f"{small} small, on a device": (jax.tree.map(jnp.asarray, host), few),
        "one large, NumPy": (big, images),
        "one large, on a device": (jnp.asarray(big), images),
    }


def peak(name: str) -> float:
    """The peak of replicating one large array in this process, over the size of the result."""
    put = replicating()[name]
    jax.block_until_ready(put(jnp.ones((64, 64))))
    tree = base.device(base.MEGABYTES << 18)
    before = base.resident("VmRSS")
    base.Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    out = jax.block_until_ready(put(tree))
    return (base.resident("VmHWM") - before) / out.nbytes


def main() -> None:
    quick = "--quick" in sys.argv
    lines: list[dict[str, Any]] = []
    for size, (tree, batch) in trees(quick).items():
        for case, calls in cases(tree, batch).items():
            best = base.best_of(calls, 2 if quick else 5, 1)
            ratios = {k: round(best[OURS] / v, 2) for k, v in best.items() if k != OURS}
            milliseconds = {k: round(1e3 * v, 1) for k, v in best.items()}
            lines.append({"size": size, "case": case, "ms": milliseconds, "ratio": ratios})
            print(f"{size:22} {case:22} {milliseconds} {ratios}")
    command = [sys.executable, __file__, "--peak"]
    peaks = {
        name: round(float(subprocess.run([*command, name], stdout=-1, check=True).stdout), 2)
        for name in ([] if quick else replicating())
    }
    print("peak memory, x result:", peaks)
    if not quick:
        record = {"jax": jax.__version__, "devices": base.DEVICES, "time": lines, "peak": peaks}
        path = base.HERE / "results" / f"emitted_helpers-cpu-{jax.__version__}.json"
        path.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    if "--peak" in sys.argv:
        print(peak(sys.argv[2]))
    else:
        main()
