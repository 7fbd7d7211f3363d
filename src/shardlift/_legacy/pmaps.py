"""``jax.pmap`` as it was: its arguments, its type, and inputs that are moved silently."""

import functools
import sys
import types
from collections.abc import Callable
from typing import Any

from shardlift._legacy.patches import Patches
from shardlift._legacy.tracebacks import without_package
from shardlift.source.libraries import PMAP_ARGUMENTS


class PmapFunction:
    """A pmapped function. Libraries recognise it by the name of its type (chex, haiku)."""

    def __init__(self, mapped: Callable[..., Any], fun: Callable[..., Any]) -> None:
        """``mapped`` is ``fun``, pmapped."""
        functools.update_wrapper(self, fun)
        self._mapped = mapped

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run with one row per device."""
        try:
            return self._mapped(*args, **kwargs)
        except BaseException as error:
            error.__traceback__ = without_package(error.__traceback__)
            raise  # adds one frame of this package

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Bind to an instance, where a pmapped function is a method."""
        return self if instance is None else types.MethodType(self, instance)

    def __getattr__(self, name: str) -> Any:
        """``lower``, ``trace``, ``eval_shape``, ``clear_cache`` and the like."""
        if name == "_mapped":  # a copy whose attributes are not set yet
            raise AttributeError(name)
        return getattr(self._mapped, name)


def old_pmap(pmap: Callable[..., Any], note: Callable[[], None]) -> Callable[..., Any]:
    """``pmap`` with the old arguments and the old result type of ``jax.pmap``."""

    # Until 0.2.10 every argument could be given by position.
    @functools.wraps(pmap if not isinstance(pmap, functools.partial) else pmap.func)
    def legacy_pmap(fun: Callable[..., Any], *args: Any, **options: Any) -> PmapFunction:
        options |= dict(zip(PMAP_ARGUMENTS[: len(args)], args, strict=True))
        note()
        return PmapFunction(pmap(fun, **options), fun)

    return legacy_pmap


def replace_everywhere(patches: Patches, stock: Any, ours: Any) -> None:
    """Replace ``stock`` by ``ours`` in every module outside JAX that holds it.

    Modules that are imported later get ``ours`` from ``jax``; undoing gives them ``stock``.
    """
    for module in _user_modules():
        for name, value in list(vars(module).items()):
            if value is stock:
                patches.set(module, name, ours)
            elif isinstance(value, functools.partial) and value.func is stock:
                renewed = functools.partial(ours, *value.args, **value.keywords)
                patches.set(module, name, renewed)

    def restore_stock() -> None:
        for module in _user_modules():
            for name, value in list(vars(module).items()):
                if value is ours:
                    setattr(module, name, stock)

    patches.on_undo(restore_stock)


def _user_modules() -> list[types.ModuleType]:
    loaded = [module for module in list(sys.modules.values()) if type(module) is types.ModuleType]
    inner = ("jax", "jaxlib", "shardlift")
    return [module for module in loaded if module.__name__.partition(".")[0] not in inner]
