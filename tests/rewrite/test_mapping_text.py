"""What is written into packages for pmaps inside one another, run as it is written there."""

from __future__ import annotations

import builtins
import symtable
from typing import Any

import jax
import numpy as np
import pytest

from shardlift.rewrite.helpers import AXES, DONATING, catalogue, emit
from shardlift.source.model import HelperRequest

_X = np.arange(16, dtype=np.float32).reshape(8, 2)


@pytest.fixture(scope="module")
def emitted() -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "emitted"}
    exec(emit([HelperRequest("shard_map_per_device")]), names)
    return names


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((np.ones((8, 2)),), "cannot reshape array of size 8"),
        ((np.ones((4, 2)), np.ones((2, 2))), "squeeze|divisible"),
        ((np.ones((2, 2)), np.ones((4, 2))), "squeeze|divisible"),
        ((np.ones((4, 2)), np.float32(1)), "rank"),
    ],
)
def test_it_fails_loudly(emitted: dict[str, Any], args: tuple[Any, ...], message: str) -> None:
    mapped = jax.jit(emitted["shard_map_per_device"](lambda *a: a, ("i", "j")))
    with pytest.raises(ValueError, match=message):
        mapped(*args)


def test_every_helper_has_what_it_needs() -> None:
    texts = [HelperRequest("spmd_map", frozenset({kind})) for kind in (AXES, DONATING)]
    for asked in (*map(HelperRequest, catalogue()), *texts):
        tree = symtable.symtable(emit([asked]), asked.name, "exec")
        defined = {symbol.get_name() for symbol in tree.get_symbols() if symbol.is_assigned()}
        defined |= {symbol.get_name() for symbol in tree.get_symbols() if symbol.is_imported()}
        assert _globals(tree) - defined <= set(dir(builtins)), asked


def _globals(table: symtable.SymbolTable) -> set[str]:
    """The global names that a text reads, in functions as well."""
    found = {s.get_name() for s in table.get_symbols() if s.is_referenced() and s.is_global()}
    return found.union(*map(_globals, table.get_children()))
