"""Hooks on ``jax.pmap``, ``jax.jit`` and ``jax.shard_map``.

Each function that the program maps is handed to an observer, which returns what takes its place.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from shardlift.capture.schema import SiteKind
from shardlift.mapping import registry
from shardlift.recording.caller import is_users, user_line
from shardlift.recording.mapped_calls import JitCall, JitFunction, MappedCall, PmapCall
from shardlift.recording.process import name_of, site_behind
from shardlift.recording.site_records import SiteKey


class ObservedFunction(NamedTuple):
    """A function that the program has mapped."""

    call: Any  # the mapped function
    fun: Any
    kind: SiteKind
    key: SiteKey
    program: str  # the name of the compiled program
    # None: its calls cannot be taken apart.
    take_apart: Callable[[tuple[Any, ...], dict[str, Any]], MappedCall] | None = None
    static: Collection[int] = ()  # the positions of static arguments
    traceable: bool = True  # may its program be asked?

    @property
    def inspected(self) -> bool:
        """Whether it knows where its arguments belong."""
        return self.kind is SiteKind.PMAP and self.take_apart is not None


Observe = Callable[[ObservedFunction], Any]
Fault = Callable[[Exception], None]  # is told of errors of ours, which the program must not see


def hook_pmap(pmap: Callable[..., Any], observe: Observe, fault: Fault) -> Callable[..., Any]:
    """``pmap``, whose functions go through ``observe``."""

    @functools.wraps(pmap if not isinstance(pmap, functools.partial) else pmap.func)
    def observed_pmap(*args: Any, **kwargs: Any) -> Any:
        pmapped = pmap(*args, **kwargs)
        try:
            return _observed(pmapped, args, kwargs, observe)
        except Exception as error:
            fault(error)
            return pmapped

    return observed_pmap


def _observed(pmapped: Any, args: tuple[Any, ...], kwargs: dict[str, Any], observe: Observe) -> Any:
    fun = args[0] if args else kwargs.get("fun")
    site, real = site_behind(pmapped, args, kwargs)
    key = SiteKey(*user_line(), name_of(fun))
    mapped = ObservedFunction(pmapped, fun, SiteKind.PMAP, key, key.function, traceable=False)
    if site is not None:
        mapped = mapped._replace(
            program=site.name,
            take_apart=functools.partial(PmapCall, site),
            static=site.options.static,
            traceable=real,
        )
    observed = observe(mapped)
    if observed is not pmapped:
        observed.__wrapped__ = getattr(pmapped, "__wrapped__", fun)
        if real and site is not None:
            registry.remember(observed, site)
    return observed


def hook_every(
    transform: Callable[..., Any], kind: SiteKind, observe: Observe, fault: Fault
) -> Callable[..., Any]:
    """``jax.jit`` or ``jax.shard_map``, whose functions go through ``observe``."""

    def observed(mapped: Any, fun: Any, options: dict[str, Any]) -> Any:
        key, function = SiteKey(*user_line(), name_of(fun)), JitFunction(fun, options)
        take_apart = functools.partial(JitCall, function)
        return observe(
            ObservedFunction(mapped, fun, kind, key, key.function, take_apart, function.static)
        )

    return _hook(transform, observed, fault)


def hook_exported(call: Callable[..., Any], observe: Observe, fault: Fault) -> Callable[..., Any]:
    """``jax.export.Exported.call``, whose functions go through ``observe`` when they are called."""

    @functools.wraps(call)
    def observed_call(exported: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            fun = functools.partial(call, exported)
            key = SiteKey(*user_line(), exported.fun_name)
            take_apart = functools.partial(JitCall, JitFunction(fun, {}))
            mapped = ObservedFunction(fun, fun, SiteKind.JIT, key, key.function, take_apart)
            observed = observe(mapped)
        except Exception as error:
            fault(error)
            observed = fun
        return observed(*args, **kwargs)

    return observed_call


def _hook(
    transform: Callable[..., Any],
    replace: Callable[[Any, Any, dict[str, Any]], Any],
    fault: Fault,
) -> Callable[..., Any]:
    def replaced(made: Any, fun: Any, options: dict[str, Any]) -> Any:
        try:
            return replace(made, fun, options)
        except Exception as error:
            fault(error)
            return made

    @functools.wraps(transform)
    def hooked(*args: Any, **kwargs: Any) -> Any:
        made = transform(*args, **kwargs)
        if not is_users(sys._getframe(1)):
            return made
        fun = args[0] if args else kwargs.get("fun", kwargs.get("f"))
        if callable(fun):
            return replaced(made, fun, kwargs)
        return lambda fun: replaced(made(fun), fun, kwargs)  # @jax.jit(static_argnums=0)

    return hooked
