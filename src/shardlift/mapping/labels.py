"""Names for mesh axes: a mesh needs strings, but pmap takes any hashable object."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any

from shardlift import _compat

# Characters that a mesh axis name must not have: a quote stops the compiler of jax 0.12.0. A
# backslash or a non-ASCII character stops the compiler of 0.10.2, which uses the text for nothing.
_UNSAFE = re.compile(r"[^A-Za-z0-9_ ]" if _compat.VERSION < (0, 11) else r"['\\]")


class AxisLabel(str):
    """A mesh axis name in place of an axis name that a mesh cannot have.

    It hashes and compares as the user's object, so that ``lax.psum(x, that_object)``
    finds the axis. Its text is the object's ``str``, because the lowering of collectives
    writes ``str(name)`` (jax 0.12) and the mesh in the compiled module must agree. Where that
    text has unsafe characters, the map works but such a collective does not on 0.12: see
    `errors.toml`.

    >>> key = object()
    >>> label = AxisLabel(key)
    >>> label == key, label in {key: 8}, isinstance(label, str)
    (True, True, True)
    """

    name: Hashable

    def __new__(cls, name: Hashable) -> AxisLabel:
        """Create the label of ``name``."""
        self = super().__new__(cls, _UNSAFE.sub("_", str(name)) or "_")
        self.name = name
        return self

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: Any) -> bool:
        return bool(self.name == (other.name if isinstance(other, AxisLabel) else other))

    def __ne__(self, other: Any) -> bool:
        return not self == other


def label_of(axis_name: Hashable | None, level: int = 0) -> str:
    """The mesh axis name of a pmap at nesting depth ``level``.

    >>> label_of("batch"), label_of(None), label_of(None, 1)
    ('batch', '_pmap', '_pmap1')
    """
    if axis_name is None:
        return f"_pmap{level or ''}"
    if type(axis_name) is str and axis_name and not _UNSAFE.search(axis_name):
        return axis_name
    if isinstance(axis_name, tuple):
        # No collective can name it: a tuple means several axes. Its label must not be equal to it:
        # JAX 0.12 keeps one of several equal PartitionSpecs, and may return the wrong one.
        return _UNSAFE.sub("_", str(axis_name))
    return AxisLabel(axis_name)
