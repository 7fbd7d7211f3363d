"""Reading and writing captures. Nothing in a file is executed; a damaged file raises an error."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import stat
import types
import typing
from collections.abc import Callable
from enum import StrEnum
from typing import Any

from shardlift._escape import escape_control
from shardlift._files import replace_file
from shardlift.capture.schema import BUCKETS, SCHEMA, VERSION, Capture
from shardlift.capture.version1 import upgrade

LARGEST_STREAM = 256 * 2**20  # bytes that are read of what is no file
LARGEST_NUMBER = 2**63


class CaptureError(ValueError):
    """The file is not a capture that this version can read."""


def read(path: str | os.PathLike[str]) -> Capture:
    """Read a capture from a file; raises `CaptureError` if it is damaged or is not one."""
    with open(path, "rb") as file:
        is_file = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
        data = file.read() if is_file else file.read(LARGEST_STREAM + 1)  # a device has no end
    if not is_file and len(data) > LARGEST_STREAM:
        raise CaptureError(f"{path} is no file, and has more than {LARGEST_STREAM} bytes")
    try:
        return loads(data)
    except CaptureError as error:
        raise CaptureError(f"{path} {error}") from None


def loads(data: bytes | str) -> Capture:
    """Read a capture from JSON."""
    try:
        tree = json.loads(data, parse_constant=_refuse_constant)
    except RecursionError:
        raise CaptureError("is not a capture: it is nested too deeply") from None
    except ValueError as error:  # not JSON, not UTF-8, a number of thousands of digits
        why = str(error).partition("\n")[0][:200]
        raise CaptureError(f"is damaged, or is not a capture: {why}") from None
    _check_head(tree)
    if tree["version"] == 1:
        upgrade(tree)
    capture = _decode(Capture, tree, "")
    _check_sense(capture)
    return typing.cast("Capture", capture)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _check_head(tree: Any) -> None:
    if not isinstance(tree, dict) or tree.get("schema") != SCHEMA:
        raise CaptureError(f'is not a capture: it does not say "schema": "{SCHEMA}"')
    version = tree.get("version")
    if type(version) is not int or version < 1:
        raise CaptureError("is damaged: its version is not a number")
    if version > VERSION:
        raise CaptureError(
            f"was written by a newer shardlift: it is a capture of version {version}, and this "
            f"one reads versions up to {VERSION}. pip install --upgrade shardlift"
        )


def _check_sense(capture: Any) -> None:
    """Check that references inside the capture are valid."""
    for event in capture.timeline:
        if event.site >= len(capture.sites):
            raise CaptureError(f"is damaged: its timeline names site {event.site}")
    for site in capture.sites:
        for sample in site.samples:
            for side in (sample.inputs, sample.outputs, sample.inside, sample.replayed):
                if side is not None and not _fits(side, site.forms):
                    raise CaptureError(
                        f"is damaged: the digests of call {sample.call} of {site.function} belong "
                        "to no list of forms"
                    )
        for name, times in vars(site.times).items():
            if any(bucket >= BUCKETS for bucket, _ in times.buckets):
                raise CaptureError(f"is damaged: times.{name} of {site.file} has a strange bucket")


def _fits(values: Any, forms: Any) -> bool:
    return values.forms < len(forms) and len(values.digests) == len(forms[values.forms])


def _decode(wanted: Any, value: Any, where: str) -> Any:
    """Convert ``value`` to ``wanted``, a type of the schema."""
    if dataclasses.is_dataclass(wanted):
        return _decode_part(typing.cast("type", wanted), value, where)
    origin, inner = typing.get_origin(wanted), typing.get_args(wanted)
    if origin is types.UnionType:
        return None if value is None else _decode(inner[0], value, where)
    if origin is tuple:
        return _decode_tuple(inner, value, where)
    if origin is dict:
        _demand(isinstance(value, dict), where, "an object")
        return {
            escape_control(key): _decode(inner[1], item, f"{where}.{escape_control(key)}")
            for key, item in value.items()
        }
    if issubclass(wanted, StrEnum):
        _demand(value in [*wanted], where, f"one of {', '.join(wanted)}")
        return wanted(value)
    return _SCALARS[wanted](value, where)


def _decode_part(part: type, value: Any, where: str) -> Any:
    _demand(isinstance(value, dict), where, "an object")
    given = {}
    for name, (kind, needed) in _fields(part).items():
        if name in value:
            given[name] = _decode(kind, value[name], f"{where}.{name}" if where else name)
        else:
            _demand(not needed, where, f"an object with {name}")
    return part(**given)


def _decode_tuple(inner: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    _demand(isinstance(value, list), where, "a list")
    if inner[-1] is Ellipsis:
        return tuple(_decode(inner[0], item, f"{where}[{k}]") for k, item in enumerate(value))
    _demand(len(value) == len(inner), where, f"a list of {len(inner)}")
    return tuple(_decode(kind, item, where) for kind, item in zip(inner, value, strict=True))


_known: dict[type, dict[str, tuple[Any, bool]]] = {}


def _fields(part: type) -> dict[str, tuple[Any, bool]]:
    """The type of each field, and whether it is required."""
    if part not in _known:
        hints = typing.get_type_hints(part)
        _known[part] = {
            f.name: (
                hints[f.name],
                f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING,
            )
            for f in dataclasses.fields(part)
        }
    return _known[part]


def _text(value: Any, where: str) -> str:
    _demand(isinstance(value, str), where, "text")
    return escape_control(value)  # whoever shows it need not think of what a terminal would obey


def _flag(value: Any, where: str) -> bool:
    _demand(isinstance(value, bool), where, "true or false")
    return bool(value)


def _whole(value: Any, where: str) -> int:
    _demand(type(value) is int and 0 <= value < LARGEST_NUMBER, where, "a count")
    return int(value)


def _real(value: Any, where: str) -> float:
    fine = type(value) in (int, float) and 0 <= value < LARGEST_NUMBER and math.isfinite(value)
    _demand(fine, where, "a number that is not negative")
    return float(value)


_SCALARS: dict[Any, Callable[[Any, str], Any]] = {
    str: _text, bool: _flag, int: _whole, float: _real,
}  # fmt: skip


def _demand(fine: bool, where: str, what: str) -> None:
    if not fine:
        raise CaptureError(f"is damaged: {where or 'it'} should be {what}")


def dumps(capture: Capture) -> str:
    """Convert a capture to JSON on one line, times rounded to a nanosecond."""
    tree = dataclasses.asdict(capture)
    return json.dumps(_round(tree), ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _round(tree: Any) -> Any:
    if isinstance(tree, float):
        return round(tree, 9) if math.isfinite(tree) else 0.0
    if isinstance(tree, dict):
        return {key: _round(value) for key, value in tree.items()}
    return [_round(value) for value in tree] if isinstance(tree, (list, tuple)) else tree


def write(capture: Capture, path: str | os.PathLike[str]) -> None:
    """Write a capture to a file, atomically."""
    replace_file(path, (dumps(capture) + "\n").encode("utf-8", "backslashreplace"))
