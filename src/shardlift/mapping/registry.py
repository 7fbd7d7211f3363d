"""The sites of each function, and how long they live."""

import threading
import weakref
from collections.abc import Callable
from typing import Any, cast

from shardlift import _compat
from shardlift.mapping.plan import Fun
from shardlift.mapping.pmap_options import PmapOptions
from shardlift.mapping.site import MappedFunction


class _Programs:
    """The programs of all sites, as a cache that JAX clears with its own caches.

    After ``jax.extend.backend.clear_backends`` the devices are new objects; programs that were
    compiled for the old ones would still run on those.
    """

    def __init__(self) -> None:
        self.sites: weakref.WeakSet[MappedFunction] = weakref.WeakSet()

    def cache_clear(self) -> None:
        """Forget every program of every site."""
        for site in list(self.sites):
            site.clear()


_programs = _Programs()
_compat.register_cache(_programs, "shardlift.pmap")


# The sites of each function, by identity: equality is not enough, since the site of a function must
# neither outlive it nor serve another one. An entry is removed with its function.
_sites: dict[int, tuple[weakref.ref[Any], dict[Any, MappedFunction]]] = {}
_sites_lock = threading.RLock()


def site_of(fun: Fun, options: PmapOptions) -> MappedFunction:
    """The site of ``fun`` with these options.

    ``pmap(f)(x)`` in a loop must not compile again, so equal pmaps of one function share a site.
    ``self.step`` is a new object each time it is read, so each pmap of it is traced anew and sees
    what changed in ``self``, as in JAX 0.7.2. Neither the table nor the site keeps the function
    alive: when it is freed, so are its programs and the arrays it closed over.
    """
    identity = id(fun)
    try:
        key = options.key()
        hash(key)
        reference = weakref.ref(fun)
    except TypeError:  # an option that cannot be hashed, or a function without weak references
        return _make(lambda: fun, fun, options)  # which the site keeps alive
    with _sites_lock:
        if identity not in _sites:
            _sites[identity] = weakref.ref(fun, lambda _: _sites.pop(identity, None)), {}
        sites = _sites[identity][1]
        if key not in sites:
            # Whoever uses the site holds the function.
            sites[key] = _make(cast("Callable[[], Fun]", reference), fun, options)
        return sites[key]


def _make(get_fun: Callable[[], Fun], fun: Fun, options: PmapOptions) -> MappedFunction:
    site = MappedFunction(get_fun, getattr(fun, "__name__", type(fun).__name__), options)
    _programs.sites.add(site)
    return site


# The site of each function that `pmap` returned. Not an attribute: functools.wraps copies those.
mapped_functions: weakref.WeakKeyDictionary[Callable[..., Any], MappedFunction] = (
    weakref.WeakKeyDictionary()
)


def site_behind(fun: Callable[..., Any]) -> MappedFunction | None:
    """The site of a function that `pmap` returned; None for any other function."""
    try:
        return mapped_functions.get(fun)
    except TypeError:  # not hashable, or without weak references
        return None
