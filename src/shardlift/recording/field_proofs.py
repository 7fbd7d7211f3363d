"""What the fields of a state need to be the same on all devices: fields of the arguments.

A step takes a state and returns the next one. If one field differs between devices, such as batch
statistics that are not averaged, the others may be the same all the same: whether they are cannot
be told from proofs about whole arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from jax.tree_util import DictKey, FlattenedIndexKey, GetAttrKey, SequenceKey, keystr

from shardlift.capture.proofs import join_needs
from shardlift.recording.site_records import clip

MOST_FIELDS = 16  # of all arguments; each takes a proof of its own

Needs = dict[str, tuple[str, ...] | None]
Find = Callable[[Callable[[Collection[str]], list[Any]], set[str]], list[Any]]


def field_needs(
    paths: Sequence[Any],
    given: Sequence[tuple[int | None, Any]],
    proven: Callable[[list[bool]], list[Any]],
    find_needs: Find,
) -> dict[str, Needs]:
    """For each part of the output that is a state, what each of its fields needs.

    ``paths`` are those of the outputs; ``given`` has for each input the position of its argument
    and its path in there; ``proven`` says which outputs are the same if some inputs are.
    """
    fields = [_field(path) for path in paths]
    keys = {keystr(path) for _, path in filter(None, fields)}
    owners = [_owner(position, path, keys) for position, path in given]
    names = {owner for owner in owners if owner is not None}
    if not any(owner is not None and not owner.isdigit() for owner in owners):
        return {}  # no argument has these fields
    if len(names) > MOST_FIELDS:
        return {}
    needs = find_needs(lambda equal: proven([owner in equal for owner in owners]), names)
    return _by_part(fields, needs)


def _by_part(
    fields: Sequence[tuple[Any, Any] | None], needs: Sequence[tuple[str, ...] | None]
) -> dict[str, Needs]:
    found: dict[str, Needs] = {}
    for one, need in zip(fields, needs, strict=True):
        if one is None:
            continue
        outer, inner = one
        part = found.setdefault("output" + keystr(outer), {})
        name = clip("output" + keystr((*outer, *inner)))
        part[name] = join_needs(part[name], need) if name in part else need
    return found


def _field(path: Any) -> tuple[Any, Any] | None:
    """The path of the state that a leaf of the output is in, and its field in there."""
    start = 1 if path and isinstance(path[0], (SequenceKey, FlattenedIndexKey)) else 0
    key = path[start] if len(path) > start else None
    is_field = isinstance(key, GetAttrKey) or (isinstance(key, DictKey) and type(key.key) is str)
    return (path[:start], path[start : start + 1]) if is_field else None


def _owner(position: int | None, path: Any, keys: Collection[str]) -> str | None:
    """The argument, or the field of it, that an input belongs to; None of one given by name."""
    if position is None:
        return None
    key = keystr(path[:1])
    return f"{position}{key}" if key in keys else str(position)
