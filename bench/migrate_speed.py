"""`shardlift migrate` on a file of 300 lines, and on each file of a project that has pmap in it.

    python -m bench.migrate_speed [FOLDER]...

Processor seconds inside one process, without starting Python; the best of several. Without a
folder, only the file of 300 lines, which is made here: twelve functions and a pmap of each.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from shardlift.rewrite.engine import migrate

ROUNDS = 5
TARGET = 0.5  # seconds for 300 lines
FORMS = (
    "@jax.pmap\ndef step_{n}(state, batch):\n{body}",
    "@functools.partial(jax.pmap, axis_name='batch', donate_argnums=(0,))\n"
    "def step_{n}(state, batch):\n{body}",
    "def step_{n}(state, batch):\n{body}\n\np_step_{n} = jax.pmap(step_{n}, axis_name='batch')",
    "def step_{n}(state, batch):\n{body}\n\n"
    "p_step_{n} = jax.pmap(step_{n}, in_axes=(0, None), static_broadcasted_argnums=1)",
)


def main(folders: list[str]) -> None:
    text = made()
    seconds = best(lambda: run({"/p/train.py": text.encode()}))
    verdict = "met" if seconds <= TARGET else "MISSED"
    print(f"{text.count(chr(10))} lines, 12 sites: {seconds:.3f} s   target {TARGET}: {verdict}")
    for folder in folders:
        files = [str(p) for p in Path(folder).rglob("*.py") if b"pmap" in p.read_bytes()]
        times = sorted((best(lambda f=f: run({f: Path(f).read_bytes()}), 2), f) for f in files)
        if times:
            middle, worst = times[len(times) // 2], times[-1]
            print(f"{folder}: {len(files)} files with pmap, median {middle[0]:.3f} s")
            print(f"  slowest {worst[0]:.3f} s: {worst[1]}")


def made() -> str:
    body = "\n".join(f"    x_{k} = jnp.tanh(batch['x'] * state['w'] + {k})" for k in range(18))
    body += "\n    return jax.lax.pmean(x_0, 'batch')"
    head = "import functools\n\nimport jax\nimport jax.numpy as jnp\n\n\n"
    blocks = (FORMS[n % len(FORMS)].format(n=n, body=body) for n in range(12))
    return head + "\n\n\n".join(blocks) + "\n"


def run(contents: dict[str, bytes]) -> None:
    migrate(list(contents), contents.__getitem__, lambda path: path in contents)


def best(action: Callable[[], None], rounds: int = ROUNDS) -> float:
    found = []
    for _ in range(rounds):
        start = time.process_time()
        action()
        found.append(time.process_time() - start)
    return min(found)


if __name__ == "__main__":
    sys.path.insert(0, os.getcwd())
    main(sys.argv[1:])
