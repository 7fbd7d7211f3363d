"""Reading and writing captures. Nothing in a file is executed; a damaged file raises an error."""

import dataclasses
import functools
import json
import math
import os
import types
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shardlift._escape import escape_control
from shardlift._files import replace_file
from shardlift.capture.schema import BUCKETS, SCHEMA, VERSION, Capture

LARGEST_NUMBER = 2**63


class CaptureError(ValueError):
    """The file is not a capture that this version can read."""


def read(path: str | os.PathLike[str]) -> Capture:
    """Read a capture from a file; raises `CaptureError` if it is damaged or is not one."""
    data = Path(path).read_bytes()
    try:
        return loads(data)
    except CaptureError as error:
        raise CaptureError(f"{path} {error}") from None


def loads(data: bytes | str) -> Capture:
    """Read a capture from JSON."""
    try:
        tree = json.loads(data)
    except RecursionError:
        raise CaptureError("is not a capture: it is nested too deeply") from None
    except ValueError as error:  # not JSON, not UTF-8, a number of thousands of digits
        why = str(error).partition("\n")[0][:200]
        raise CaptureError(f"is damaged, or is not a capture: {why}") from None
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
    try:
        capture: Capture = _decode(Capture, tree)
    except _WrongValueError as error:
        raise CaptureError(f"is damaged: {error.where or 'it'} should be {error}") from None
    _check_references(capture)
    return capture


def _check_references(capture: Capture) -> None:
    for site in capture.sites:
        counts = [len(forms) for forms in site.forms]
        for sample in site.samples:
            for values in (sample.inputs, sample.outputs, sample.inside):
                if values is not None and counts[values.forms :][:1] != [len(values.digests)]:
                    raise CaptureError(
                        f"is damaged: the digests of call {sample.call} of {site.function} belong "
                        "to no list of forms"
                    )
        for name, times in vars(site.times).items():
            if any(bucket >= BUCKETS for bucket, _ in times.buckets):
                raise CaptureError(f"is damaged: times.{name} of {site.file} has a strange bucket")


class _WrongValueError(Exception):
    """A value that is not of the type of its field, and where it stands."""

    where = ""


# What a value has to be, the check, and the conversion; texts are made safe to show on a terminal.
_SCALARS: dict[Any, tuple[str, Callable[[Any], bool], Callable[[Any], Any]]] = {
    str: ("text", lambda value: isinstance(value, str), escape_control),
    bool: ("true or false", lambda value: isinstance(value, bool), bool),
    int: ("a count", lambda value: type(value) is int and 0 <= value < LARGEST_NUMBER, int),
    float: (
        "a number that is not negative",
        lambda value: type(value) in (int, float) and 0 <= value < LARGEST_NUMBER,
        float,
    ),
}


def _decode(wanted: Any, value: Any) -> Any:
    """Convert a value to ``wanted``, a type of the schema."""
    if wanted in _SCALARS:
        name, fits, convert = _SCALARS[wanted]
        _demand(fits(value), name)
        return convert(value)
    if dataclasses.is_dataclass(wanted):
        return _decode_record(typing.cast("type", wanted), value)
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin is types.UnionType:  # or None
        return None if value is None else _decode(arguments[0], value)
    if origin is tuple:
        _demand(isinstance(value, list), "a list")
        kinds = arguments[:1] * len(value) if arguments[-1] is Ellipsis else arguments
        _demand(len(value) == len(kinds), f"a list of {len(kinds)}")
        pairs = zip(kinds, value, strict=True)
        return tuple(_at(f"[{k}]", kind, item) for k, (kind, item) in enumerate(pairs))
    if origin is dict:
        _demand(isinstance(value, dict), "an object")
        items = [(escape_control(key), item) for key, item in value.items()]
        return {key: _at(key, arguments[1], item) for key, item in items}
    words = [*wanted]
    _demand(value in words, f"one of {', '.join(words)}")
    return wanted(value)


def _decode_record(record: type, value: Any) -> Any:
    _demand(isinstance(value, dict), "an object")
    given = {}
    for name, kind, is_needed in _fields(record):
        if name in value:
            given[name] = _at(name, kind, value[name])
        else:
            _demand(not is_needed, f"an object with {name}")
    return record(**given)


@functools.cache
def _fields(record: type) -> list[tuple[str, Any, bool]]:
    """The fields of a record: name, type, and whether there is no default."""
    hints, missing = typing.get_type_hints(record), dataclasses.MISSING
    return [
        (f.name, hints[f.name], f.default is missing and f.default_factory is missing)
        for f in dataclasses.fields(record)
    ]


def _at(place: str, wanted: Any, value: Any) -> Any:
    """Decode a value; an error gets the place, on its way to the outermost value."""
    try:
        return _decode(wanted, value)
    except _WrongValueError as error:
        error.where = f"{place}{'.' if error.where[:1] not in ('', '[') else ''}{error.where}"
        raise


def _demand(is_right: bool, wanted: str) -> None:
    if not is_right:
        raise _WrongValueError(wanted)


def dumps(capture: Capture) -> str:
    """Convert a capture to JSON on one line, times rounded to a nanosecond."""
    return json.dumps(_tree(capture), ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _tree(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 9) if math.isfinite(value) else 0.0
    if isinstance(value, (list, tuple)):
        return [_tree(item) for item in value]
    if dataclasses.is_dataclass(value):
        value = vars(value)
    return {key: _tree(item) for key, item in value.items()} if isinstance(value, dict) else value


def write(capture: Capture, path: str | os.PathLike[str]) -> None:
    """Write a capture to a file, atomically."""
    replace_file(path, (dumps(capture) + "\n").encode("utf-8", "backslashreplace"))
