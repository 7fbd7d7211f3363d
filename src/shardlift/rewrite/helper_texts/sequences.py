"""Functions of sequences that `jax.util` had.

Files give them the names `map` and `zip`, too, so they do not use these.
"""

from collections.abc import Callable, Iterable
from typing import Any


def safe_map(f: Callable[..., Any], *args: Iterable[Any]) -> list[Any]:
    """`map` as a list, of arguments of one length."""
    lists = [list(arg) for arg in args]
    assert len({len(each) for each in lists}) == 1
    return [f(*(each[i] for each in lists)) for i in range(len(lists[0]))]


def safe_zip(*args: Iterable[Any]) -> list[tuple[Any, ...]]:
    """`zip` as a list, of arguments of one length."""
    return safe_map(lambda *xs: xs, *args)
