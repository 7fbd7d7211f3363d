"""What verify costs: the two plain runs against the command that runs and compares both.

    python -m bench.verify_cost [--steps 40] [--leaves 1000]

A train step of a small network, or with --leaves of that many small arrays, before in pmap and
after in shard_map, each run by itself (the first by ``shardlift run``) and both by ``shardlift
verify``; interleaved, the best of several. Seconds are those of the CPU with --leaves, where the
work is in many small pieces and the clock shows what else the machine does.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COMMON = """
import sys
import jax, jax.numpy as jnp, numpy as np
from jax import lax

def loss_of(p, x, y):
    for w in p["layers"]:
        x = jnp.tanh(x @ w)
    return jnp.mean((x @ p["out"] - y) ** 2)

def train_step(p, x, y):
    loss, grads = jax.value_and_grad(loss_of)(p, x, y)
    grads = lax.pmean(grads, "batch")
    return jax.tree.map(lambda a, g: a - 0.1 * g, p, grads), lax.pmean(loss, "batch")

LEAVES = int(sys.argv[2])
if LEAVES:
    def train_step(p, x, y):
        mean = lax.pmean(jnp.mean(x) + jnp.mean(y), "batch")
        return jax.tree.map(lambda a: a - 0.1 * (a - mean), p), mean

rng = np.random.default_rng(0)
normal = lambda *shape: rng.normal(size=shape).astype(np.float32) / 16
p = {"layers": [normal(256, 256) for _ in range(6)], "out": normal(256, 8)}
p = [normal(16) for _ in range(LEAVES)] or p
n, steps = jax.local_device_count(), int(sys.argv[1])
"""
BEFORE = """
step = jax.pmap(train_step, axis_name="batch")
p = jax.device_put_replicated(p, jax.devices())
for _ in range(steps):
    p, loss = step(p, normal(n, 64, 256), normal(n, 64, 8))
print(loss[0])
"""
AFTER = """
from jax.sharding import Mesh, PartitionSpec as P
mesh, rows = Mesh(np.array(jax.devices()), ("batch",)), P("batch")
step = jax.jit(jax.shard_map(
    train_step, mesh=mesh, in_specs=(P(), rows, rows), out_specs=P(), check_vma=False))
for _ in range(steps):
    p, loss = step(p, normal(n * 64, 256), normal(n * 64, 8))
print(loss)
"""


def seconds(folder: str, *command: str, of_cpu: bool, devices: int = 8) -> float:
    env = {**os.environ, "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": str(devices)}
    start = cpu_seconds() if of_cpu else time.perf_counter()
    subprocess.run([sys.executable, *command], cwd=folder, env=env, check=True, capture_output=True)
    return (cpu_seconds() if of_cpu else time.perf_counter()) - start


def cpu_seconds() -> float:
    """CPU seconds of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", default="40")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--leaves", default="0", help="so many small arrays instead of a network")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("before.py", BEFORE), ("after.py", AFTER)):
            (Path(folder) / name).write_text(COMMON + text)
        cli = ("-m", "shardlift.cli")
        plain, both = [], []
        for _ in range(chosen.rounds):
            args, of_cpu = (chosen.steps, chosen.leaves), chosen.leaves != "0"
            first = seconds(folder, *cli, "run", "-q", "before.py", *args, of_cpu=of_cpu)
            plain.append(first + seconds(folder, "after.py", *args, of_cpu=of_cpu))
            tolerance = () if of_cpu else ("--tolerance", "ulps=16,rtol=1e-6")
            pair = ("verify", *tolerance, "before.py", "after.py")
            both.append(seconds(folder, *cli, *pair, "--", *args, of_cpu=of_cpu))
    print(
        f"{chosen.steps} steps: two plain runs {min(plain):.1f} s, verify {min(both):.1f} s, ",
        end="",
    )
    print(f"{min(both) / min(plain):.2f} times")


if __name__ == "__main__":
    main()
