"""Records what the pmapped functions of a program compute, on the JAX that it was written for.

This file stands alone: copy it next to the program, into an environment with JAX 0.4 to 0.7 and
Python 3.8 or newer, and run

    python record_legacy.py [--devices N] [--keep-bytes N] capture.json train.py ARGS
    python record_legacy.py capture.json -m package.train ARGS

It writes capture.json, and capture.json.npz with the values of the first calls. Take both to where
the new program is, and compare: shardlift verify capture.json train_new.py -- ARGS
"""

from __future__ import annotations

import functools
import inspect
import json
import linecache
import os
import platform
import random
import re
import runpy
import sys
import threading
from typing import Any

import numpy as np

KEEP = 64 * 2**20  # bytes of outputs, and of inputs, whose values are kept
GLUE = ("jax", "jaxlib", "flax", "haiku", "chex", "optax", "equinox", "functools", "contextlib")
jax: Any = None  # imported when the number of devices is set
here = threading.local()


# ---- arrays


def on_host(leaf: Any) -> Any:
    """The values of an array, of typed keys their data; None: it has no bytes to compare."""
    if getattr(leaf, "is_deleted", bool)():
        return None
    if str(getattr(leaf, "dtype", "")).startswith("key<"):
        leaf = jax.random.key_data(leaf)
    array = np.asarray(leaf)
    return None if array.dtype.hasobject or array.dtype.kind in "USMm" else array


def bits_of(array: Any) -> Any:
    """The bytes of an array, in C order."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def has_equal_rows(rows: Any) -> bool:
    """Whether all rows of the first axis are the same."""
    if not rows.ndim or len(rows) < 2 or not rows.size:
        return False
    flat = bits_of(rows).reshape(len(rows), -1)
    return bool((flat[1:] == flat[:1]).all())


def root(array: Any, axis: int | None) -> Any:
    """The array without its leading axes whose rows are all the same; ``axis`` comes first."""
    rows = np.moveaxis(array, axis, 0) if axis else array
    while has_equal_rows(rows):
        rows = rows[0]
    return rows


def digest_of(array: Any, axis: int | None) -> str:
    """The digest of `capture/array_digest.py`, a test compares the two."""
    rows = np.moveaxis(array, axis or 0, 0) if (axis or 0) < array.ndim else array
    is_mapped = (axis or 0) < array.ndim and has_equal_rows(rows)
    return _hash(array) + ("/" + _hash(rows[0]) if is_mapped else "")


def _hash(array: Any) -> str:
    """The words of the array, each mixed with its place, added up."""
    flat, number = np.ascontiguousarray(array).reshape(-1), np.uint32
    size = flat.dtype.itemsize
    bits = {"int2": 2, "uint2": 2, "int4": 4, "uint4": 4, "float4_e2m1fn": 4}.get(flat.dtype.name)
    if size in (1, 2):
        flat = flat.view("u%d" % size).astype(number) & number(2 ** (bits or 32) - 1)  # noqa: UP031
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
    return "%08x%08x" % (sums[0] % 2**32, sums[1] % 2**32)  # noqa: UP031


# ---- trees


def with_paths(tree: Any, name: str) -> list[tuple[str, Any]]:
    """Path and leaf, as in ``output[0]['w']``."""
    if hasattr(jax.tree_util, "tree_flatten_with_path") and hasattr(jax.tree_util, "keystr"):
        flat = jax.tree_util.tree_flatten_with_path(tree)[0]
        return [(name + jax.tree_util.keystr(path), leaf) for path, leaf in flat]
    leaves = jax.tree_util.tree_leaves(tree)  # before 0.4.6
    return [("%s.%d" % (name, k), leaf) for k, leaf in enumerate(leaves)]  # noqa: UP031


def rows_of(tree: Any, name: str, prefix: Any) -> list[tuple[str, Any, int | None]]:
    """Path, leaf and axis of each leaf of ``tree``; ``prefix`` is a prefix of it, of axes."""
    is_leaf = lambda x: x is None or isinstance(x, int)  # noqa: E731
    axes, structure = jax.tree_util.tree_flatten(prefix, is_leaf=is_leaf)
    row_axes: list[int | None] = []
    for axis, part in zip(axes, structure.flatten_up_to(tree)):  # noqa: B905
        row_axes += [axis] * len(jax.tree_util.tree_leaves(part))
    return [(path, leaf, a) for (path, leaf), a in zip(with_paths(tree, name), row_axes)]  # noqa: B905


# ---- the tape


class LegacyTape:
    """All calls of all sites."""

    def __init__(self, keep: int) -> None:
        self.room = {"inputs": keep, "outputs": keep}
        self.sites: dict[Any, dict[str, Any]] = {}
        self.arrays: dict[str, Any] = {}
        self.lock = threading.RLock()

    def site(self, file: str, line: int, function: str, names: list[str]) -> dict[str, Any]:
        """The record of a site."""
        with self.lock:
            new = {
                "number": len(self.sites), "file": file, "line": line, "function": function,
                "axis_size": 0, "calls": 0, "failed": 0, "names": [], "forms": [], "samples": [],
            }  # fmt: skip
            known = self.sites.setdefault((file, line, function), new)
            known["names"] += [name for name in names if name not in known["names"]]
            return known

    def put(self, site: dict[str, Any], call: int, part: str, rows: Any) -> dict[str, Any]:
        """Keep the arrays of one side of a call."""
        forms, digests = [], []
        for k, (path, leaf, axis) in enumerate(rows):
            array = on_host(leaf)
            dtype = str(getattr(leaf, "dtype", getattr(array, "dtype", type(leaf).__name__)))
            shape = [] if array is None else list(array.shape)
            forms.append({"path": path, "dtype": dtype, "shape": shape, "axis": axis})
            digests.append("" if array is None else digest_of(array, axis))
            if array is not None and array.nbytes:
                self._keep("%d.%d.%s.%d" % (site["number"], call, part, k), part, array, axis)  # noqa: UP031
        if forms not in site["forms"]:
            site["forms"].append(forms)
        return {"forms": site["forms"].index(forms), "digests": digests}

    def _keep(self, name: str, part: str, array: Any, axis: int | None) -> None:
        bits = bits_of(root(array, axis))
        if bits.nbytes <= self.room[part]:
            self.room[part] -= bits.nbytes
            self.arrays[name] = bits.copy()

    def write(self, path: str, command: list[str]) -> None:
        """The capture, and the values beside it."""
        devices = jax.local_devices()
        process = {
            "index": 0, "count": 1, "python": platform.python_version(), "jax": jax.__version__,
            "shardlift": "", "platform": devices[0].platform,
            "device_kind": devices[0].device_kind,
            "devices": ["%s:%d" % (d.platform, d.id) for d in devices],  # noqa: UP031
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


# ---- the hook


def taped_pmap(stock: Any, tape: LegacyTape) -> Any:
    """``jax.pmap`` whose calls are put on tape."""

    @functools.wraps(stock)
    def pmap(fun: Any, *args: Any, **kwargs: Any) -> Any:
        file, line = user_line()
        name = getattr(fun, "__name__", type(fun).__name__)
        assigned = re.match(r"\s*(?:self\.)?(\w+)\s*=[^=]", linecache.getline(file, line))
        names = [name] + ([assigned.group(1)] if assigned else [])
        folder = os.path.join(os.getcwd(), "")
        shown = file[len(folder) :] if file.startswith(folder) else file
        site = tape.site(shown, line, name, names)
        return Taped(stock(fun, *args, **kwargs), fun, site, tape, kwargs)

    return pmap


class Taped:
    """A pmapped function whose calls are put on tape; ``given`` are the keywords of ``pmap``."""

    def __init__(self, mapped: Any, fun: Any, site: Any, tape: LegacyTape, given: Any) -> None:
        functools.update_wrapper(self, fun)
        self._mapped, self._fun, self._site, self._tape = mapped, fun, site, tape
        self._given = given

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run, and keep what goes in and out; calls inside of another one are part of it."""
        leaves = jax.tree_util.tree_leaves((args, kwargs))
        traced = any(isinstance(leaf, jax.core.Tracer) for leaf in leaves)
        if traced or getattr(here, "busy", False):
            return self._mapped(*args, **kwargs)
        here.busy = True
        try:
            return self._call(args, kwargs)
        finally:
            here.busy = False

    def _call(self, args: Any, kwargs: Any) -> Any:
        site, tape = self._site, self._tape
        number = len(site["samples"])
        sample: dict[str, Any] = {"call": number, "failed": True}
        site["samples"].append(sample)
        site["failed"] += 1
        sample["inputs"] = tape.put(site, number, "inputs", self._inputs(args, kwargs))
        out = self._mapped(*args, **kwargs)
        rows = rows_of(out, "output", self._given.get("out_axes", 0))
        sample["outputs"] = tape.put(site, number, "outputs", rows)
        sample["failed"] = False
        site["failed"] -= 1
        site["calls"] += 1
        return out

    def _inputs(self, args: Any, kwargs: Any) -> Any:
        static = self._given.get("static_broadcasted_argnums", ())
        static = (static,) if isinstance(static, int) else tuple(static)
        static = tuple(k % len(args) for k in static) if args else ()
        in_axes = self._given.get("in_axes", 0)
        rows = []
        for k, (name, arg) in enumerate(zip(self._names(args), args)):  # noqa: B905
            axis = in_axes
            if isinstance(in_axes, (tuple, list)):
                axis = in_axes[k] if k < len(in_axes) else 0
            rows += rows_of(arg, name, axis) if k not in static else []
        for name in sorted(kwargs):
            rows += rows_of(kwargs[name], name, 0)
        for _, leaf, axis in rows:
            if axis is not None and np.ndim(leaf) > axis and not self._site["axis_size"]:
                self._site["axis_size"] = int(np.shape(leaf)[axis])
        return rows

    def _names(self, args: Any) -> list[str]:
        try:
            names = list(inspect.signature(self._fun).parameters)
        except (TypeError, ValueError):
            names = []
        return [names[k] if k < len(names) else "args[%d]" % k for k in range(len(args))]  # noqa: UP031

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __getattr__(self, name: str) -> Any:
        if name == "_mapped":
            raise AttributeError(name)
        return getattr(self._mapped, name)


def user_line() -> tuple[str, int]:
    """File and line of the innermost frame that is not of a library which passes calls on."""
    frame: Any = sys._getframe(1)
    while frame.f_back is not None and is_glue(frame.f_code.co_filename):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def is_glue(file: str) -> bool:
    """Is this a file of such a library, or this one?"""
    parts = re.split(r"[\\/]", os.path.splitext(file)[0])
    inside = "site-packages" in parts or "dist-packages" in parts
    named = parts[-1] in ("functools", "contextlib")
    return file == __file__ or named or (inside and any(part in GLUE for part in parts))


# ---- the command


def main(arguments: list[str]) -> None:
    """Run the program with ``jax.pmap`` on tape, and write the capture however it ends."""
    keep = KEEP
    while arguments and arguments[0] in ("--devices", "--keep-bytes"):
        option, value, arguments = arguments[0], int(arguments[1]), arguments[2:]
        if option == "--keep-bytes":
            keep = value
        else:
            flag = "--xla_force_host_platform_device_count=%d" % value  # noqa: UP031
            os.environ["XLA_FLAGS"] = (os.environ.get("XLA_FLAGS", "") + " " + flag).strip()
            os.environ["JAX_PLATFORMS"] = os.environ["JAX_PLATFORM_NAME"] = "cpu"
    if len(arguments) < 2 or arguments[0].endswith(".py"):
        sys.exit(__doc__)
    out, command = os.path.abspath(arguments[0]), arguments[1:]
    global jax
    import jax

    tape = LegacyTape(keep)
    jax.pmap = taped_pmap(jax.pmap, tape)
    random.seed(0)
    np.random.seed(0)
    try:
        run(command)
    finally:
        tape.write(out, command)
        calls = sum(site["calls"] for site in tape.sites.values())
        told = "record_legacy: %d calls of %d pmap sites written to %s"
        print(told % (calls, len(tape.sites), out), file=sys.stderr)


def run(command: list[str]) -> None:
    """Run it as ``__main__``."""
    if command[0] == "-m":
        sys.argv = command[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(command[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = command
        sys.path[0] = os.path.dirname(os.path.abspath(command[0]))
        runpy.run_path(command[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
