"""Module names of libraries and of files."""

from __future__ import annotations

from pathlib import PurePath

# Libraries are recognised by name, even if their own source is part of the project.
LIBRARIES = frozenset(
    {"jax", "jaxlib", "flax", "equinox", "objax", "haiku", "optax", "numpy", "functools"}
)


def module_parts(path: str) -> tuple[str, ...]:
    """The module name of a path: `src/pkg/mod.py` is `("src", "pkg", "mod")`."""
    pure = PurePath(path)
    if pure.suffix != ".py":
        return ()
    parts = tuple(part for part in pure.with_suffix("").parts if part not in ("/", ".", ".."))
    return parts[:-1] if parts and parts[-1] == "__init__" else parts
