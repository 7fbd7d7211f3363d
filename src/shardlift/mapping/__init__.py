"""The pmap transform, on public ``jax.jit`` and ``jax.shard_map``."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any, Protocol, cast

import jax

from shardlift.mapping.argument_placement import ReshardWarning
from shardlift.mapping.divergence import DivergenceError
from shardlift.mapping.nesting import NeedsInner
from shardlift.mapping.pmap_options import Reshard, View, check_options
from shardlift.mapping.registry import mapped_functions, site_of
from shardlift.mapping.site import MappedFunction

if TYPE_CHECKING:
    from shardlift.mapping.explanation import Explanation

__all__ = ["DivergenceError", "Pmapped", "ReshardWarning", "pmap"]


class Pmapped(Protocol):
    """What ``pmap`` returns."""

    __wrapped__: Callable[..., Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run with one row per device."""

    def lower(self, *args: Any, **kwargs: Any) -> jax.stages.Lowered:
        """Lower for these arguments; ``.compile()`` gives a program for such arguments."""

    def trace(self, *args: Any, **kwargs: Any) -> jax.stages.Traced:
        """Trace for these arguments: ``.jaxpr``, ``.out_info``, ``.lower()``."""

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Shapes and dtypes of the outputs; nothing is computed."""

    def clear_cache(self) -> None:
        """Forget every compiled program of this function."""

    def explain(self, *args: Any, **kwargs: Any) -> Explanation:
        """Describe a call with these arguments: mesh, devices, specs, donation, collectives."""

    def as_shard_map(self, *args: Any, **kwargs: Any) -> Callable[..., Any]:
        """The plain ``jax.jit(jax.shard_map(...))`` that a call with these arguments runs."""


def pmap(
    fun: Callable[..., Any],
    axis_name: Hashable | None = None,
    *,
    in_axes: Any = 0,
    out_axes: Any = 0,
    static_broadcasted_argnums: int | Iterable[int] = (),
    devices: Iterable[jax.Device] | None = None,
    backend: str | None = None,
    axis_size: int | None = None,
    donate_argnums: int | Iterable[int] = (),
    reshard: Reshard = "error",
    view: View = "local",
) -> Pmapped:
    """Map ``fun`` over the rows of its arguments, one row on each device.

    Takes what ``jax.pmap`` takes, with the same meaning, and gives the same numbers, gradients
    included. Nested pmaps share one mesh and run on all their devices together.

    Args:
      fun: the function of one row.
      axis_name: the name by which collectives in ``fun`` refer to the devices; any hashable.
      in_axes: which axis of each positional argument holds the rows; None sends the whole
        argument to every device. A tree prefix of the arguments, static ones counted.
        Arguments passed by keyword are mapped over axis 0.
      out_axes: where the rows go in the outputs; None gives the first device's value,
        without a device axis.
      static_broadcasted_argnums: positional arguments that are compile-time constants.
      devices: the devices to run on, one per row; the first ones by default.
      backend: the platform whose devices to take.
      axis_size: the number of rows; needed only where no argument is mapped.
      donate_argnums: positional arguments whose buffers the call may reuse.
      reshard: what to do with an input that is committed to other devices: "error" raises,
        "warn" moves it and warns once, "silent" just moves it, as ``jax.pmap`` did before 0.8.
      view: in a job of many processes, "local" takes and returns the rows of this process, one
        for each of its devices, as ``jax.pmap`` does; "global" takes and returns global arrays
        over the devices of all processes, with no conversion at all. Collectives go over all
        devices of all processes either way.

    >>> import jax.numpy as jnp
    >>> scaled = pmap(lambda x: x / jax.lax.psum(x, "i"), axis_name="i")
    >>> print(scaled(jnp.array([1.0, 3.0])))
    [0.25 0.75]
    """
    options = check_options(
        fun,
        axis_name=axis_name,
        in_axes=in_axes,
        out_axes=out_axes,
        static_broadcasted_argnums=static_broadcasted_argnums,
        donate_argnums=donate_argnums,
        devices=devices,
        backend=backend,
        axis_size=axis_size,
        reshard=reshard,
        view=view,
    )
    site = site_of(fun, options)

    # `fun` stays alive through __wrapped__: the site itself holds it weakly. Nothing is checked
    # here: 0.1 microseconds more is 2 % of a call. Under a transformation, in another pmap's
    # body or with arguments of another size the hot program raises, and `recover` handles it.
    @functools.wraps(fun)
    def pmapped(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            return site.call(args, kwargs)
        hot = site.hot
        try:
            return hot(*args)
        except (Exception, NeedsInner) as error:
            failure = error  # handled outside: errors raised below must not be chained to it
        try:
            return site.recover(failure, hot, args)
        finally:
            del failure  # its traceback holds this frame, and with it the arguments

    for name in _METHODS:
        setattr(pmapped, name, _method(name, fun, site))
    pmapped.clear_cache = site.clear  # type: ignore[attr-defined]
    mapped_functions[pmapped] = site
    return cast("Pmapped", pmapped)


# Method -> its module, imported when one is called: a first call of the pmap needs none of them.
_METHODS = {
    "lower": "ahead_of_time",
    "trace": "ahead_of_time",
    "eval_shape": "ahead_of_time",
    "as_shard_map": "ahead_of_time",
    "explain": "explanation",
}


def _method(name: str, fun: Callable[..., Any], site: MappedFunction) -> Callable[..., Any]:
    def method(*args: Any, **kwargs: Any) -> Any:
        module = importlib.import_module(f"{__name__}.{_METHODS[name]}")
        return getattr(module, name)(site, args, kwargs)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = getattr(Pmapped, name).__doc__
    method.fun = fun  # type: ignore[attr-defined] # must live as long as this: pmap(f).lower(x)
    return method
