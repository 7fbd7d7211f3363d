"""Run programs before and after a migration, in one process, and compare every bit.

    python -m tests.rewrite.run_programs FOLDER

In FOLDER each program has a folder with `before/` and `after/`. Prints one JSON object: for each
program None, or what went wrong.
"""

import importlib
import json
import os
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

import shardlift
from tests import children

_PMAP = jax.pmap


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write the files of a program into a folder."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


def result_of(runner: str, folder: Path) -> Any:
    """What a module of these tests prints about the programs in a folder, on eight devices."""
    paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    environment = children.plain_environment(
        JAX_NUM_CPU_DEVICES="8",
        JAX_PLATFORMS="cpu",
        PYTHONPATH=os.pathsep.join(filter(None, paths)),
    )
    command = [sys.executable, "-m", f"tests.rewrite.{runner}", str(folder)]
    done = children.run(command, env=environment, timeout=600, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def run(folder: Path, before: bool) -> Any:
    """What main() of the program returns; pmap, where it is left, is shardlift.pmap."""
    texts = "".join(path.read_text() for path in folder.rglob("*.py"))
    jax.pmap = shardlift.pmap if before or "pmap" in texts.replace("_spmd", "") else _forbidden
    try:
        return imported(folder)
    finally:
        jax.pmap = _PMAP


def imported(folder: Path) -> Any:
    """What main() of the program in a folder returns."""
    known = set(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        return jax.block_until_ready(importlib.import_module("main").main())
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - known:
            if str(folder) in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]
        importlib.invalidate_caches()


def _forbidden(*args: Any, **kwargs: Any) -> Any:
    raise AssertionError("pmap was called after the migration")


def difference(one: Any, other: Any, ulps: int = 0) -> str | None:
    """Where two trees differ, if they do: structure, shapes, types, bits.

    Floating-point leaves may be this many units in the last place of their largest number apart.
    """
    if jax.tree.structure(one) != jax.tree.structure(other):
        return f"{jax.tree.structure(one)} became {jax.tree.structure(other)}"
    for left, right in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        left, right = _bits(left), _bits(right)
        if left.shape != right.shape or left.dtype != right.dtype:
            return f"{left.dtype}{left.shape} became {right.dtype}{right.shape}"
        if left.tobytes() != right.tobytes() and _distance(left, right) > ulps:
            return f"{left} became {right}, {_distance(left, right):.1f} ulps"
    return None


def _distance(left: Any, right: Any) -> float:
    """How many ulps of the largest number two arrays are apart; infinite if they are no floats."""
    if not jax.numpy.issubdtype(left.dtype, jax.numpy.floating) or not left.size:
        return float("inf")
    unit = float(jax.numpy.finfo(left.dtype).eps) * max(float(np.abs(left).max()), 1e-30)
    return float(np.abs(left.astype(float) - right.astype(float)).max()) / unit


def _bits(leaf: Any) -> Any:
    if isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    return np.asarray(leaf)


def verdict(folder: Path) -> str | None:
    """None if the program gives the same after as before."""
    try:
        expected = run(folder / "before", before=True)
    except Exception:
        return f"before: {traceback.format_exc()[-1500:]}"
    try:
        return difference(expected, run(folder / "after", before=False))
    except Exception:
        return f"after: {traceback.format_exc()[-1500:]}"


if __name__ == "__main__":
    folders = sorted(Path(sys.argv[1]).iterdir())
    print(json.dumps({folder.name: verdict(folder) for folder in folders}))
