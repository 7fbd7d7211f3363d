"""Lazy packages, whose names are loaded when they are first used (PEP 562)."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def lazy(
    package: str, where: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the ``__getattr__`` and ``__dir__`` of a package; ``where`` maps names to modules.

    >>> get, names = lazy("json", {"JSONDecoder": "json.decoder"})
    >>> get("JSONDecoder").__module__, names()
    ('json.decoder', ['JSONDecoder'])
    """

    def get(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(where[name]), name)

    return get, lambda: sorted(where)
