"""Facts about a pmap when it is made, and about the process."""

from __future__ import annotations

import functools
import inspect
import platform
from typing import Any

import jax

import shardlift
from shardlift.capture.schema import Process
from shardlift.mapping import pmap, registry
from shardlift.mapping.options import check_options
from shardlift.mapping.site import Site

MOST_DEVICES = 1024  # that are named

# What arguments under a transformation are (2026-11: 0.10.2 and 0.12.0); anything else is "other".
_TRACES = {
    "DynamicJaxprTracer": "jit, scan or another that compiles",
    "BatchTracer": "vmap",
    "JVPTracer": "jvp or grad",
    "LinearizeTracer": "grad or linearize",
}
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
) -> tuple[Site | None, bool]:
    """The site of a pmapped function, and whether calls really go through it.

    Of a pmap that is not ours there is none: one is made from what pmap was given, to take
    arguments apart by it; it runs nothing.
    """
    site = registry.site_behind(pmapped)
    if site is not None:
        return site, True
    given = dict(zip(("fun", "axis_name"), args, strict=False)) | kwargs
    fun: Any = given.pop("fun", None)
    chosen: Any = {name: value for name, value in given.items() if name in _OPTIONS}
    try:
        options = check_options(fun, reshard="silent", **chosen)
    except (TypeError, ValueError):
        return None, False
    return Site(lambda: fun, name_of(fun), options), False


def kind_of_trace(tree: Any) -> str:
    """The transformation under which a call was made, judged by its arguments."""
    kinds = {type(leaf).__name__ for leaf in jax.tree.leaves(tree)}
    return next((words for name, words in _TRACES.items() if name in kinds), "other")


def process_facts(devices_in_use: bool) -> Process:
    """This process and its versions; its devices only if the program has used them."""
    devices = jax.local_devices()[:MOST_DEVICES] if devices_in_use else []
    return Process(
        index=jax.process_index() if devices else 0,
        count=jax.process_count() if devices else 1,
        python=platform.python_version(),
        jax=jax.__version__,
        shardlift=shardlift.__version__,
        platform=devices[0].platform if devices else "",
        device_kind=devices[0].device_kind if devices else "",
        devices=tuple(f"{device.platform}:{device.id}" for device in devices),
    )
