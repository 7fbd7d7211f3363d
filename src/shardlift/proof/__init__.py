"""Proof: which outputs are equal on all devices, and whether two programs compute the same.

`comparing` and `taping` are `shardlift verify`; the rest is `shardlift.replication`. Nothing is
loaded before it is asked for: a program that is run on tape imports JAX when it wants to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shardlift.proof.outcome import NotProven as NotProven
    from shardlift.proof.outcome import Proven as Proven
    from shardlift.proof.outcome import Replication as Replication
    from shardlift.proof.prove import replication as replication

_WHERE = {
    "NotProven": "outcome", "Proven": "outcome", "Replication": "outcome", "replication": "prove",
}  # fmt: skip
__all__ = list(_WHERE)


def __getattr__(name: str) -> Any:
    import importlib

    if name not in _WHERE:
        raise AttributeError(f"module 'shardlift.proof' has no attribute {name!r}")
    return getattr(importlib.import_module(f"shardlift.proof.{_WHERE[name]}"), name)
