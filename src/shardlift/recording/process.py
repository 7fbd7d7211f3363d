"""Facts about a pmap when it is made, about the process, and about its source files."""

from __future__ import annotations

import functools
import inspect
import os
import platform
import sys
import uuid
from pathlib import Path
from typing import Any

import jax

import shardlift
from shardlift import _compat
from shardlift._own_files import is_own
from shardlift.capture.schema import Process
from shardlift.mapping import pmap, registry
from shardlift.mapping.pmap_options import check_options
from shardlift.mapping.site import MappedFunction
from shardlift.recording.caller import GLUE, shown
from shardlift.source.text import UnreadableError, read_source

_OPTIONS = set(inspect.signature(pmap).parameters) - {"fun", "reshard", "view"}


def name_of(fun: Any) -> str:
    """The name of a function; a pmap of a pmap on the same line is another site."""
    inner = fun
    while isinstance(inner, functools.partial):
        inner = inner.func
    name = str(getattr(inner, "__name__", type(inner).__name__))
    return f"pmap of {name}" if registry.site_behind(fun) else name


def site_behind(
    pmapped: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[MappedFunction, bool]:
    """The site of a pmapped function, and whether calls really go through it.

    `jax.pmap` has none: one is made from what it was given, to take arguments apart by it; it runs
    nothing.
    """
    site = registry.site_behind(pmapped)
    if site is not None:
        return site, True
    given = dict(zip(("fun", "axis_name"), args, strict=False)) | kwargs
    fun: Any = given.pop("fun", None)
    chosen: Any = {name: value for name, value in given.items() if name in _OPTIONS}
    options = check_options(fun, reshard="silent", **chosen)
    return MappedFunction(lambda: fun, name_of(fun), options), False


def process_facts(devices_in_use: bool) -> Process:
    """This process and its versions; its devices only if the program has used them."""
    devices = jax.local_devices() if devices_in_use else []
    place = (jax.process_index(), jax.process_count()) if devices else _compat.place_in_job()
    index, count = place or (0, 1)
    return Process(
        index=index,
        count=count,
        python=platform.python_version(),
        jax=jax.__version__,
        shardlift=shardlift.__version__,
        platform=devices[0].platform if devices else "",
        device_kind=devices[0].device_kind if devices else "",
        devices=tuple(f"{device.platform}:{device.id}" for device in devices),
        host=platform.node(),
    )


_JOB = "shardlift/job"
_PATIENCE = 2000  # milliseconds


def job_name() -> str:
    """A name that the processes of this job share and no other job has; empty if there is none.

    Process 0 invents it and leaves it with the coordination service, so every process should ask
    for it as soon as it has joined.
    """
    place = _compat.place_in_job()
    return "" if place is None or place[1] == 1 else _agree_on_name(place[0])


@functools.cache
def _agree_on_name(process: int) -> str:
    client = _compat.coordination()
    if client is None:
        return ""
    try:
        if process:
            return client.blocking_key_value_get(_JOB, _PATIENCE)
        invented = uuid.uuid4().hex
        client.key_value_set(_JOB, invented)
    except jax.errors.JaxRuntimeError:  # process 0 is not recorded, or the service is gone
        return ""
    return invented


def sources() -> dict[str, str]:
    """Digests of the Python files and notebooks of this program, without installed packages.

    What is proven holds for these texts only.
    """
    digests: dict[str, str] = {}
    for path in sorted({*_files()}):
        try:
            status = os.stat(path)
            digests[shown(path)] = _digest(path, status.st_mtime_ns, status.st_size)
        except (OSError, UnreadableError):
            continue
    return digests


@functools.cache  # a job of many processes writes its capture again and again
def _digest(path: str, _changed: int, _size: int) -> str:
    return read_source(path, Path(path).read_bytes()).digest


def _files() -> list[str]:
    paths = []
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if not isinstance(path, str) or name.partition(".")[0] in GLUE:
            continue
        if path.endswith((".py", ".ipynb")):
            whole = os.path.abspath(path)
            if is_own(whole) and is_own(os.path.realpath(whole)):
                paths.append(whole)
    return paths
