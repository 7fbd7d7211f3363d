"""What the mapping helpers share."""

import functools
from collections.abc import Callable
from typing import Any

import jax


def _remember(make: Callable[..., Any]) -> Callable[..., Any]:
    """Return what was made of the same function before: it compiles once."""
    made = {}

    @functools.wraps(make)
    def find(fun: Any = None, *args: Any, **kwargs: Any) -> Any:
        leaves, tree = jax.tree.flatten(kwargs)
        key = (id(fun), args, tuple(leaves), tree)
        if key not in made:
            if len(made) >= 64:
                made.pop(next(iter(made)), None)
            made[key] = make(fun, *args, **kwargs)
        return made[key]

    return find


def _of_one_process(devices: Any) -> Any:
    """Return `devices`; raise if another process of the job has some."""
    if any(d.process_index != jax.process_index() for d in devices):
        raise RuntimeError("written for one process, not for several")
    return devices
