"""What `verify` says and costs on an accelerator, which CI does not have.

    python -m bench.verify_gpu [--steps 100]

A transformer of about 200 leaves of state (adam, bfloat16) in pmap on all devices of this machine:

1. a file and its copy must be identical or close, with exit status 0;
2. a copy with one mistake (a learning rate that is 1 % larger) must be different;
3. the time of `verify` against that of the two plain runs, interleaved.

The plain runs are also made with the flags of XLA that `verify` sets, to show what these cost.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

PROGRAM = """
import sys, time
import jax, jax.numpy as jnp, numpy as np
from jax import lax

WIDTH, HEADS, DEPTH, LENGTH, WORDS, BATCH = {sizes}
n = jax.local_device_count()
rng = np.random.default_rng(0)
normal = lambda *shape: (rng.normal(size=shape) / shape[-1] ** 0.5).astype(np.float32)
layer = lambda: {{
    "qkv": normal(WIDTH, 3 * WIDTH), "out": normal(WIDTH, WIDTH), "up": normal(WIDTH, 4 * WIDTH),
    "down": normal(4 * WIDTH, WIDTH), "norm1": np.ones(WIDTH, np.float32),
    "norm2": np.ones(WIDTH, np.float32),
}}
params = {{"embed": normal(WORDS, WIDTH), "layers": [layer() for _ in range(DEPTH)]}}

def norm(x, scale):
    x = x.astype(jnp.float32)
    return (x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * scale).astype(jnp.bfloat16)

def block(x, p):
    w = {{k: v.astype(jnp.bfloat16) for k, v in p.items() if v.ndim == 2}}
    q, k, v = jnp.split(norm(x, p["norm1"]) @ w["qkv"], 3, -1)
    heads = lambda a: a.reshape(*a.shape[:2], HEADS, -1).swapaxes(1, 2)
    scores = (heads(q) @ heads(k).swapaxes(2, 3)).astype(jnp.float32) / (WIDTH // HEADS) ** 0.5
    mask = jnp.tril(jnp.ones((LENGTH, LENGTH), bool))
    mixed = jax.nn.softmax(jnp.where(mask, scores, -1e9)).astype(jnp.bfloat16) @ heads(v)
    x = x + mixed.swapaxes(1, 2).reshape(x.shape) @ w["out"]
    return x + jax.nn.gelu(norm(x, p["norm2"]) @ w["up"]) @ w["down"]

def loss_of(p, tokens):
    x = p["embed"].astype(jnp.bfloat16)[tokens[:, :-1]]
    for one in p["layers"]:
        x = block(x, one)
    logits = (x @ p["embed"].T.astype(jnp.bfloat16)).astype(jnp.float32)
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[:, 1:, None], -1)
    return -jnp.mean(picked)

def train_step(state, tokens):
    p, m, v, step = state
    loss, grads = jax.value_and_grad(loss_of)(p, tokens)
    grads, loss = lax.pmean(grads, "batch"), lax.pmean(loss, "batch")
    m = jax.tree.map(lambda a, g: 0.9 * a + 0.1 * g, m, grads)
    v = jax.tree.map(lambda a, g: 0.99 * a + 0.01 * g * g, v, grads)
    scale = {rate} / (1 - 0.9 ** (step + 1.0))
    p = jax.tree.map(lambda a, b, c: a - scale * b / (jnp.sqrt(c) + 1e-8), p, m, v)
    return (p, m, v, step + 1), loss

zeros = lambda: jax.tree.map(np.zeros_like, params)
state = jax.tree.map(lambda x: np.stack([x] * n), (params, zeros(), zeros(), np.int32(0)))
train = jax.pmap(train_step, axis_name="batch", donate_argnums=0)
start = time.perf_counter()
for step in range(int(sys.argv[1])):
    tokens = rng.integers(0, WORDS, (n, BATCH, LENGTH + 1)).astype(np.int32)
    state, loss = train(state, tokens)
    if step == 0:
        jax.block_until_ready(loss)
        start = time.perf_counter()
jax.block_until_ready(state)
leaves = len(jax.tree.leaves(state))
print(f"{{leaves}} leaves, {{(time.perf_counter() - start) / max(step, 1) * 1e3:.2f}} ms per step,"
      f" loss {{float(np.asarray(loss)[0]):.4f}}", file=sys.stderr)
"""
LARGE, SMALL = (768, 12, 11, 256, 8192, 16), (64, 4, 11, 32, 128, 2)


class Timed(NamedTuple):
    seconds: float
    status: int
    lines: list[str]


def run(folder: str, *command: str, flags: str = "") -> Timed:
    env = dict(os.environ)
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(SOURCES), env.get("PYTHONPATH", "")]))
    if flags:
        env["XLA_FLAGS"] = f"{env.get('XLA_FLAGS', '')} {flags}".strip()
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env=env, capture_output=True, text=True, timeout=500
    )
    printed = (done.stdout + done.stderr[-4000:]).strip().splitlines()
    return Timed(time.perf_counter() - start, done.returncode, printed)


SOURCES = Path(__file__).resolve().parents[1] / "src"
DETERMINISTIC = "--xla_gpu_deterministic_ops=true"


def show(name: str, timed: Timed, most: int = 14) -> None:
    print(f"\n== {name}: {timed.seconds:.1f} s, exit status {timed.status}", flush=True)
    print("\n".join(f"   {line[:160]}" for line in timed.lines[-most:]), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", default="100")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--small", action="store_true", help="a small network, for the CPU")
    chosen = parser.parse_args()
    text = lambda rate: PROGRAM.format(sizes=SMALL if chosen.small else LARGE, rate=rate)  # noqa: E731
    with tempfile.TemporaryDirectory() as folder:
        for name, rate in (
            ("train.py", "1e-3"),
            ("train_new.py", "1e-3"),
            ("train_wrong.py", "1.01e-3"),
        ):
            (Path(folder) / name).write_text(text(rate))
        cli, args = ("-m", "shardlift.cli"), ("--patch-after", "--", chosen.steps)
        plain, both = [], []
        for number in range(chosen.rounds):
            first = run(folder, *cli, "run", "-q", "train.py", chosen.steps)
            second = run(folder, "train_new.py", chosen.steps)
            plain.append(first.seconds + second.seconds)
            pair = run(folder, *cli, "verify", "train.py", "train_new.py", *args)
            both.append(pair.seconds)
            if number == 0:
                show("plain", second, 1)
                show("a file against its copy", pair)
        show(
            "plain, deterministic",
            run(folder, "train_new.py", chosen.steps, flags=DETERMINISTIC),
            1,
        )
        no_tuning = f"{DETERMINISTIC} --xla_gpu_autotune_level=0"
        show("plain, no autotuning", run(folder, "train_new.py", chosen.steps, flags=no_tuning), 1)
        wrong = run(
            folder, *cli, "verify", "train.py", "train_wrong.py", "--patch-after", "--", "5"
        )
        show("one mistake", wrong)
    print("\n| what | result |\n|---|---|")
    print(f"| copy | exit {pair.status}: {pair.lines[-1] if pair.lines else ''} |")
    print(f"| mistake | exit {wrong.status} |")
    ratio = min(both) / min(plain)
    print(f"| two plain runs, verify, ratio | {min(plain):.1f} s, {min(both):.1f} s, {ratio:.2f} |")


if __name__ == "__main__":
    main()
