"""The values of arrays, in ``FILE.npz`` beside a capture: a NumPy archive of bytes, no pickle.

One member, ``bytes``, holds all arrays; ``index`` is JSON and says where each of them is. An
archive with one member per array, as `examples/record_legacy.py` writes it, can be read too.
"""

import io
import itertools
import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from shardlift._escape import escape_control
from shardlift._files import replace_file
from shardlift.capture.files import CaptureError
from shardlift.capture.schema import Part

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


def path_of(capture: str | os.PathLike[str]) -> str:
    """The path of the archive beside a capture."""
    return f"{os.fspath(capture)}.npz"


def name_of(site: int, call: int, part: Part, leaf: int) -> str:
    """The name of an array: which site, which call, ``inputs`` or ``outputs``, which leaf.

    >>> name_of(3, 0, Part.OUTPUTS, 2)
    '3.0.outputs.2'
    """
    return f"{site}.{call}.{part}.{leaf}"


def save(arrays: Mapping[str, Bytes], capture: str | os.PathLike[str]) -> None:
    """Write the arrays beside a capture, atomically; no file if there are none."""
    target = path_of(capture)
    if not arrays:
        if os.path.exists(target):
            os.remove(target)  # of an earlier run
        return
    with io.BytesIO() as archive:
        np.savez(archive, allow_pickle=False, **_pack(arrays))
        replace_file(target, archive.getbuffer())


def _pack(arrays: Mapping[str, Bytes]) -> dict[str, Bytes]:
    """One array of all bytes, where each object is stored once, and the places of the arrays."""
    distinct = {id(array): array for array in arrays.values()}
    ends = itertools.accumulate(array.nbytes for array in distinct.values())
    places = {
        number: (end - array.nbytes, end)
        for (number, array), end in zip(distinct.items(), ends, strict=True)
    }
    index = json.dumps({name: places[id(array)] for name, array in arrays.items()})
    text = np.frombuffer(index.encode(), np.uint8)
    return {"index": text, "bytes": np.concatenate([*distinct.values()])}


def load(capture: str | os.PathLike[str]) -> dict[str, Bytes]:
    """Read the arrays beside a capture."""
    path = path_of(capture)
    if not os.path.exists(path):
        return {}
    try:
        # Opened here: np.load leaves a file that is no archive open.
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        if arrays.keys() == {"index", "bytes"}:
            index, content = json.loads(arrays["index"].tobytes()), arrays["bytes"]
            arrays = {name: content[start:stop] for name, (start, stop) in index.items()}
    except Exception as error:  # zipfile, zlib and NumPy's reader of headers have many
        why = str(error).partition("\n")[0][:200]
        raise CaptureError(
            f"{path} is damaged, or holds no arrays: {escape_control(why)}"
        ) from None
    for name, array in arrays.items():
        if array.dtype != np.uint8 or array.ndim != 1:
            raise CaptureError(f"{path} is damaged: {escape_control(name)} holds no bytes")
    return arrays
