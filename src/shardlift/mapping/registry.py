"""Which site belongs to which function, and for how long."""

from __future__ import annotations

import inspect
import threading
import weakref
from collections.abc import Callable
from typing import Any

from shardlift import _compat
from shardlift.mapping.options import Options
from shardlift.mapping.plan import Fun
from shardlift.mapping.site import Site


class _Programs:
    """All programs of all sites, as a cache that JAX knows and clears with its own.

    After ``jax.extend.backend.clear_backends`` the devices are new objects, and a program for
    the old ones would go on running on them.
    """

    def __init__(self) -> None:
        self.sites: weakref.WeakSet[Site] = weakref.WeakSet()

    def cache_clear(self) -> None:
        """Forget every program of every site."""
        for site in list(self.sites):
            site.clear()

    def cache_info(self) -> str:
        """How much there is."""
        return f"{len(self.sites)} pmapped functions"

    def cache_keys(self) -> list[str]:
        """Whose programs these are."""
        return [site.name for site in self.sites]


_programs = _Programs()
_compat.register_cache(_programs, "shardlift.pmap")


def _weakly(fun: Fun) -> Callable[[], Fun]:
    """A way to get at ``fun`` that does not keep it alive, where there is one."""
    try:
        reference = weakref.WeakMethod(fun) if inspect.ismethod(fun) else weakref.ref(fun)
    except TypeError:
        return lambda: fun

    def get() -> Fun:
        alive = reference()
        assert alive is not None, "the pmapped function was freed while its pmap is in use"
        return alive

    return get


# The sites of each function, by what makes it this one: equal is not enough, since the site of a
# function must not outlive it, nor serve another one. An entry goes with its owner.
_sites: dict[tuple[int, int], dict[Any, Site]] = {}
_owners: dict[tuple[int, int], weakref.ref[Any]] = {}
_sites_lock = threading.RLock()


def site_of(fun: Fun, options: Options) -> Site:
    """The site of ``fun`` with these options.

    ``pmap(f)(x)`` in a loop must not compile again, so equal pmaps of one function, or of one
    method of one object, share a site. Neither the table nor the site keeps the function alive:
    when it goes, its programs, and the arrays it closed over, go too.
    """
    owner: Any = getattr(fun, "__self__", None) if inspect.ismethod(fun) else fun
    identity = (id(owner), id(getattr(fun, "__func__", None)))
    try:
        key = options.key()
        hash(key)
        with _sites_lock:
            if identity not in _sites:
                _owners[identity] = weakref.ref(owner, lambda _: _forget(identity))
                _sites[identity] = {}
            sites = _sites[identity]
            if key not in sites:
                sites[key] = _make(fun, options)
            return sites[key]
    except TypeError:  # an option that cannot be hashed, or an owner without weak references
        return _make(fun, options)


# What `pmap` returned, and the site behind it. Not an attribute: functools.wraps copies those.
_behind: weakref.WeakKeyDictionary[Callable[..., Any], Site] = weakref.WeakKeyDictionary()


def remember(pmapped: Callable[..., Any], site: Site) -> None:
    """Note that ``pmapped`` is a call of ``site`` and nothing more."""
    _behind[pmapped] = site


def site_behind(fun: Callable[..., Any]) -> Site | None:
    """The site of something that `pmap` returned; None for any other function."""
    try:
        return _behind.get(fun)
    except TypeError:  # not hashable, or without weak references
        return None


def _make(fun: Fun, options: Options) -> Site:
    name: str = getattr(fun, "__name__", type(fun).__name__)
    site = Site(_weakly(fun), name, options)
    _programs.sites.add(site)
    return site


def _forget(identity: tuple[int, int]) -> None:
    with _sites_lock:
        _sites.pop(identity, None)
        _owners.pop(identity, None)
