"""Records what the pmapped functions of a program compute, on the JAX that it was written for.

This file stands alone: copy it next to the program, into an environment with JAX 0.4 to 0.7 and
Python 3.8 or newer, and run

    python record_legacy.py [--devices N] capture.json train.py ARGS
    python record_legacy.py capture.json -m package.train ARGS

It writes capture.json, and capture.json.npz with the values of the first calls. Take both to where
the new program is, and compare: shardlift verify capture.json train_new.py -- ARGS
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import platform
import random
import re
import runpy
import sys
import traceback
from typing import Any

import numpy as np

KEEP = 64 * 2**20  # bytes of outputs, and of inputs, whose values are kept
# Files of libraries that call pmap for the program.
GLUE = re.compile(
    r"-packages[\\/](jax|jaxlib|flax|haiku|chex|optax|equinox)[\\/]|(functools|contextlib)\.py$"
)
NARROW = {"int2": 2, "uint2": 2, "int4": 4, "uint4": 4, "float4_e2m1fn": 4}  # bits of such a number
jax: Any = None  # imported when the number of devices is set


# ---- arrays


def on_host(leaf: Any) -> Any:
    """The values of an array, of typed keys their data; None: it has no bytes to compare."""
    if getattr(leaf, "is_deleted", bool)():
        return None
    if str(getattr(leaf, "dtype", "")).startswith("key<"):
        leaf = jax.random.key_data(leaf)
    array = np.asarray(leaf)
    return None if array.dtype.hasobject or array.dtype.kind in "USMm" else array


def rows_of(array: Any, axis: int | None) -> Any:
    """The array with the rows of the devices along its first axis."""
    return np.moveaxis(array, axis or 0, 0) if (axis or 0) < array.ndim else array


def has_equal_rows(rows: Any) -> bool:
    """Whether all rows of the first axis are the same."""
    if not rows.ndim or len(rows) < 2 or not rows.size:
        return False
    flat = np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), -1)
    return bool((flat[1:] == flat[:1]).all())


def digest_of(array: Any, axis: int | None) -> str:
    """The digest of `capture/array_digest.py`; a test compares the two."""
    rows = rows_of(array, axis)
    is_copied = (axis or 0) < array.ndim and has_equal_rows(rows)
    return hash_of(array) + ("/" + hash_of(rows[0]) if is_copied else "")


def hash_of(array: Any) -> str:
    """The words of the array, each mixed with its place, added up."""
    flat, number = np.ascontiguousarray(array).reshape(-1), np.uint32
    size = flat.dtype.itemsize
    if size in (1, 2):
        bits = NARROW.get(flat.dtype.name, 32)
        flat = flat.view(f"u{size}").astype(number) & number(2**bits - 1)
    words, sums = flat.view(number) if size else np.zeros(0, number), [0, 0]
    for start in range(0, len(words), 2**15):
        part = words[start : start + 2**15]
        place = np.arange(start, start + len(part), dtype=np.uint64).astype(number)
        first = part ^ (place * number(0x9E3779B1))
        second = part * number(0xCC9E2D51) + place * number(0x1B873593) + number(0x68E31DA4)
        for k, (x, *by) in enumerate(
            ((first, 16, 0x85EBCA6B, 13, 0xC2B2AE35), (second, 15, 0x2C1B3C6D, 12, 0x297A2D39))
        ):
            x = (x ^ (x >> number(by[0]))) * number(by[1])
            x = (x ^ (x >> number(by[2]))) * number(by[3])
            sums[k] += int((x ^ (x >> number(16))).sum(dtype=number))
    return "".join(f"{x % 2**32:08x}" for x in sums)


def with_paths(tree: Any, name: str, prefix: Any) -> list[tuple[str, Any, int | None]]:
    """The path of each leaf, as in ``output[0]['w']``, the leaf and its axis.

    ``prefix`` is a prefix of the tree, with an axis or None as leaves.
    """
    util = jax.tree_util
    if hasattr(util, "tree_flatten_with_path") and hasattr(util, "keystr"):
        flat = [(name + util.keystr(p), leaf) for p, leaf in util.tree_flatten_with_path(tree)[0]]
    else:  # before 0.4.6
        flat = [(f"{name}.{k}", x) for k, x in enumerate(util.tree_leaves(tree))]
    axes, structure = util.tree_flatten(prefix, is_leaf=lambda x: x is None)
    of_leaves: list[int | None] = []
    for axis, part in zip(axes, structure.flatten_up_to(tree)):  # noqa: B905
        of_leaves += [axis] * len(util.tree_leaves(part))
    return [(path, leaf, axis) for (path, leaf), axis in zip(flat, of_leaves)]  # noqa: B905


# ---- the recording


class LegacyTape:
    """All calls of all sites."""

    def __init__(self) -> None:
        self.room = {"inputs": KEEP, "outputs": KEEP}
        self.sites: dict[Any, dict[str, Any]] = {}
        self.arrays: dict[str, Any] = {}

    def site(self, fun: Any) -> dict[str, Any]:
        """The record of the line that maps a function."""
        stack = traceback.extract_stack()
        frame = [x for x in stack if x.filename != __file__ and not GLUE.search(x.filename)][-1]
        name = getattr(fun, "__name__", type(fun).__name__)
        assigned = re.match(r"(?:self\.)?(\w+)\s*=[^=]", frame.line or "")
        new = {
            "file": os.path.relpath(frame.filename), "line": frame.lineno, "function": name,
            "names": [name] + ([assigned.group(1)] if assigned else []), "number": len(self.sites),
            "axis_size": 0, "calls": 0, "forms": [], "samples": [],
        }  # fmt: skip
        return self.sites.setdefault((frame.filename, frame.lineno, name), new)

    def put(self, site: dict[str, Any], call: int, part: str, leaves: Any) -> dict[str, Any]:
        """Keep the arrays of one side of a call."""
        forms, digests = [], []
        for k, (path, leaf, axis) in enumerate(leaves):
            array = on_host(leaf)
            dtype = str(getattr(leaf, "dtype", getattr(array, "dtype", type(leaf).__name__)))
            shape = [] if array is None else list(array.shape)
            forms.append({"path": path, "dtype": dtype, "shape": shape, "axis": axis})
            digests.append("" if array is None else digest_of(array, axis))
            if axis is not None and axis < len(shape):
                site["axis_size"] = site["axis_size"] or shape[axis]
            if array is not None and array.nbytes:
                self.keep(f"{site['number']}.{call}.{part}.{k}", part, rows_of(array, axis))
        if forms not in site["forms"]:
            site["forms"].append(forms)
        return {"forms": site["forms"].index(forms), "digests": digests}

    def keep(self, name: str, part: str, rows: Any) -> None:
        """Keep the bytes while there is room; of equal rows, those of one."""
        kept = np.ascontiguousarray(rows[0] if has_equal_rows(rows) else rows)
        if kept.nbytes <= self.room[part]:
            self.room[part] -= kept.nbytes
            self.arrays[name] = kept.reshape(-1).view(np.uint8).copy()

    def write(self, path: str, command: list[str]) -> None:
        """The capture, and the values beside it."""
        devices = jax.local_devices()
        process = {
            "index": 0, "count": 1, "python": platform.python_version(), "jax": jax.__version__,
            "shardlift": "", "platform": devices[0].platform,
            "device_kind": devices[0].device_kind,
            "devices": [f"{d.platform}:{d.id}" for d in devices],
        }  # fmt: skip
        sites = [{k: v for k, v in s.items() if k != "number"} for s in self.sites.values()]
        capture = {
            "schema": "shardlift.capture", "version": 1, "command": command, "patched": False,
            "processes": [process], "sites": sites,
        }  # fmt: skip
        if self.arrays:
            with open(path + ".npz", "wb") as values:
                np.savez(values, **self.arrays)
        with open(path, "w", encoding="utf-8") as text:
            json.dump(capture, text)


def recorded_pmap(stock: Any, tape: LegacyTape) -> Any:
    """``jax.pmap`` whose calls are recorded; those inside of a traced function are part of it."""

    @functools.wraps(stock)
    def pmap(fun: Any, *args: Any, **options: Any) -> Any:
        mapped, site = stock(fun, *args, **options), tape.site(fun)

        @functools.wraps(fun)
        def call(*args: Any, **kwargs: Any) -> Any:
            leaves = jax.tree_util.tree_leaves((args, kwargs))
            if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
                return mapped(*args, **kwargs)
            number = len(site["samples"])
            sample: dict[str, Any] = {"call": number, "failed": True}
            site["samples"].append(sample)
            sample["inputs"] = tape.put(site, number, "inputs", inputs_of(args, kwargs, options))
            out = mapped(*args, **kwargs)
            outputs = with_paths(out, "output", options.get("out_axes", 0))
            sample.update(outputs=tape.put(site, number, "outputs", outputs), failed=False)
            site["calls"] += 1
            return out

        call.lower = mapped.lower  # type: ignore[attr-defined]
        return call

    return pmap


def inputs_of(args: Any, kwargs: Any, options: Any) -> Any:
    """Path, leaf and axis of the arguments that are not static."""
    static = options.get("static_broadcasted_argnums", ())
    static = [k % len(args) for k in ((static,) if isinstance(static, int) else static)]
    axes, leaves = options.get("in_axes", 0), []
    for k, arg in enumerate(args):
        if k not in static:
            axis = axes[k] if isinstance(axes, (tuple, list)) else axes
            leaves += with_paths(arg, f"args[{k}]", axis)
    for name in sorted(kwargs):
        leaves += with_paths(kwargs[name], name, 0)
    return leaves


# ---- the command


def main() -> None:
    """Run the program with ``jax.pmap`` recorded, and write the capture however it ends."""
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--devices", type=int)
    parser.add_argument("capture", type=os.path.abspath)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    if not given.command or given.capture.endswith(".py"):
        parser.error("give the file to write, and then the program")
    if given.devices:
        flag = f"--xla_force_host_platform_device_count={given.devices}"
        os.environ["XLA_FLAGS"] = (os.environ.get("XLA_FLAGS", "") + " " + flag).strip()
        os.environ["JAX_PLATFORMS"] = os.environ["JAX_PLATFORM_NAME"] = "cpu"
    global jax
    import jax

    tape = LegacyTape()
    jax.pmap = recorded_pmap(jax.pmap, tape)
    random.seed(0)
    np.random.seed(0)
    try:
        run(given.command)
    finally:
        tape.write(given.capture, given.command)
        calls = sum(site["calls"] for site in tape.sites.values())
        told = f"{calls} calls of {len(tape.sites)} pmap sites written to {given.capture}"
        print(f"record_legacy: {told}", file=sys.stderr)


def run(command: list[str]) -> None:
    """Run it as ``__main__``."""
    if command[0] == "-m":
        sys.argv, sys.path[0] = command[1:], os.getcwd()
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv, sys.path[0] = command, os.path.dirname(os.path.abspath(command[0]))
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
