"""Captures of version 1, which held sentences where version 2 has records."""

from __future__ import annotations

import re
from typing import Any

from shardlift.capture.schema import VERSION, ArrayRole, PlacementKind, ReasonKind

_TYPE = re.compile(r"\w+\[[\d,]*\]")  # float32[8,4]
_INSIDE = re.compile(r"(.+?)( \(backward pass\))? #\d+, (operand|result|value)")
_STATIC = re.compile(r"static argument (\d+): (.*) → (.*)", re.DOTALL)
_FIXED = {
    "first call": ReasonKind.FIRST_CALL,
    "not known": ReasonKind.UNKNOWN,
    "the arguments have another structure": ReasonKind.STRUCTURE,
}
Tree = dict[str, Any]


def upgrade(tree: Tree) -> None:
    """Make a tree of version 1 one of the present version; damaged parts are left as they are."""
    tree["version"] = VERSION
    for site in _objects(tree, "sites"):
        for leaf in (*_objects(site, "arguments"), *_objects(site, "outputs")):
            _replace(leaf, "lies", "placement", _placement)
        for move in _objects(site, "moves"):
            _replace(move, "source", "source", _placement)
            _replace(move, "target", "target", _placement)
        for compiled in _objects(site, "compiles"):
            _upgrade_reasons(compiled)
        for read in _objects(site, "reads"):
            _upgrade_read(read)
        for forms in _items(site.get("forms")):
            for form in _items(forms):
                if isinstance(form, dict):
                    _upgrade_form(form)


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _objects(parent: Tree, name: str) -> list[Tree]:
    return [item for item in _items(parent.get(name)) if isinstance(item, dict)]


def _replace(part: Tree, old: str, new: str, convert: Any) -> None:
    if isinstance(part.get(old), str):
        part[new] = convert(part.pop(old))


def _placement(text: str) -> Tree:
    if text in ("in place", "host"):
        return {"kind": text}
    if text.startswith("whole on each of "):
        devices = text.removeprefix("whole on each of ")
        return {"kind": PlacementKind.REPLICATED, "devices": devices}
    spec, on, devices = text.rpartition(" on ")
    if on:
        return {"kind": PlacementKind.SPLIT, "spec": spec, "devices": devices}
    return {"kind": PlacementKind.ONE_DEVICE, "devices": text}


def _upgrade_reasons(compiled: Tree) -> None:
    texts = compiled.get("reasons")
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        return
    if texts and (more := re.fullmatch(r"and (\d{1,9}) more", texts[-1])):
        compiled["reasons_left_out"] = int(more[1])
        texts = texts[:-1]
    compiled["reasons"] = [_reason(text) for text in texts]


def _reason(text: str) -> Tree:
    if text in _FIXED:
        return {"kind": _FIXED[text]}
    if text.startswith("the same arguments as before"):
        return {"kind": ReasonKind.SAME_ARGUMENTS}
    if static := _STATIC.fullmatch(text):
        return _change(ReasonKind.STATIC_ARGUMENT, *static.groups())
    path, _, change = text.rpartition(": ")
    before, _, after = change.partition(" → ")
    if change.endswith(" typed before"):
        weak = change.startswith("weakly")
        sides = ("weak", "strong") if weak else ("strong", "weak")
        return _change(ReasonKind.WEAK_TYPE, path, *sides)
    if not path:
        return _change(ReasonKind.CONTEXT, path, before, after)
    types = _TYPE.fullmatch(before) and _TYPE.fullmatch(after)
    return _change(ReasonKind.TYPE if types else ReasonKind.PLACEMENT, path, before, after)


def _change(kind: ReasonKind, path: str, before: str, after: str) -> Tree:
    return {"kind": kind, "path": path, "before": before, "after": after}


def _upgrade_read(read: Tree) -> None:
    found = re.fullmatch(r"(.*), or (\d{1,9}) of the same type", str(read.get("path")))
    if found is not None:
        read["path"], read["others"] = found[1], int(found[2])


def _upgrade_form(form: Tree) -> None:
    found = _INSIDE.fullmatch(str(form.get("path")))
    if found is None:
        return
    kind, backward, which = found.groups()
    form["backward"] = backward is not None
    if which != "value":
        form["role"], form["collective"] = ArrayRole(which), kind
    elif kind in (ArrayRole.RANDOM_KEY, ArrayRole.AXIS_INDEX):
        form["role"] = kind
