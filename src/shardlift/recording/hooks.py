"""Hooks on ``jax.pmap``, ``jax.jit`` and ``jax.shard_map``.

Each function that the program maps is handed to an observer, which returns what takes its place.
"""

import functools
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple

from shardlift.capture.schema import SiteKind
from shardlift.mapping import registry
from shardlift.recording.caller import is_users, user_line
from shardlift.recording.mapped_calls import JitCall, PmapCall, static_arguments
from shardlift.recording.process import name_of, site_behind
from shardlift.recording.site_records import SiteKey


class ObservedFunction(NamedTuple):
    """A function that the program has mapped."""

    call: Any  # the mapped function
    fun: Any
    kind: SiteKind
    key: SiteKey
    program: str  # the name of the compiled program
    take_apart: Callable[[tuple[Any, ...], dict[str, Any]], Any]  # returns a MappedCall
    traceable: bool = True  # may its program be asked?


Observe = Callable[[ObservedFunction], Any]
Fault = Callable[[Exception], None]  # is told of errors of ours, which the program must not see


def hook_pmap(pmap: Callable[..., Any], observe: Observe, fault: Fault) -> Callable[..., Any]:
    """``pmap``, whose functions go through ``observe``."""

    def observed(pmapped: Any, fun: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        site, real = site_behind(pmapped, args, kwargs)
        key = SiteKey(*user_line(), name_of(fun))
        take_apart = functools.partial(PmapCall, site)
        recorded = observe(
            ObservedFunction(pmapped, fun, SiteKind.PMAP, key, site.name, take_apart, real)
        )
        recorded.__wrapped__ = getattr(pmapped, "__wrapped__", fun)
        if real:
            registry.mapped_functions[recorded] = site
        return recorded

    return _hook(pmap, observed, fault, lambda _: True)


def hook_every(
    transform: Callable[..., Any], kind: SiteKind, observe: Observe, fault: Fault
) -> Callable[..., Any]:
    """``jax.jit`` or ``jax.shard_map``, whose functions go through ``observe``."""

    def observed(made: Any, fun: Any, _: Any, options: dict[str, Any]) -> Any:
        owner = getattr(fun, "__module__", None) or ""
        if kind is SiteKind.JIT and owner.partition(".")[0] == "jax":
            return made  # no function of the program: `jax.jit(jnp.broadcast_to, …)`
        key = SiteKey(*user_line(), name_of(fun))
        take_apart = functools.partial(JitCall, fun, static_arguments(fun, options))
        return observe(ObservedFunction(made, fun, kind, key, key.function, take_apart))

    return _hook(transform, observed, fault, is_users)


def _hook(
    transform: Callable[..., Any],
    observed: Callable[[Any, Any, tuple[Any, ...], dict[str, Any]], Any],
    fault: Fault,
    counts: Callable[[FrameType], bool],
) -> Callable[..., Any]:
    """The transformation; what it makes for frames that count is ``observed``."""

    def replaced(made: Any, fun: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            return observed(made, fun, args, kwargs)
        except Exception as error:
            fault(error)
            return made

    @functools.wraps(transform.func if isinstance(transform, functools.partial) else transform)
    def hooked(*args: Any, **kwargs: Any) -> Any:
        made = transform(*args, **kwargs)
        if not counts(sys._getframe(1)):
            return made
        fun = args[0] if args else kwargs.get("fun", kwargs.get("f"))
        if callable(fun):
            return replaced(made, fun, args, kwargs)
        return lambda fun: replaced(made(fun), fun, args, kwargs)  # @jax.jit(static_argnums=0)

    return hooked
