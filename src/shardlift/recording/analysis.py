"""What is proven of pmapped functions for arguments of given shapes, without calling them.

``shardlift run --record FILE -m shardlift.recording.analysis MODULE:FUNCTION`` calls FUNCTION. It
returns a pmapped function and its arguments, or a list of such pairs; `jax.ShapeDtypeStruct` is
enough for an array. `shardlift migrate --analyse` runs this.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Any

import jax  # noqa: F401  # first: what `run` restores is put in place when it is imported

from shardlift.recording.recorder import ANALYSE


class NotAnalysedError(Exception):
    """Something is not as `--analyse` needs it; the message says what."""


def main(arguments: Sequence[str]) -> None:
    """Analyse what the function of MODULE:FUNCTION returns."""
    try:
        (target,) = arguments
        analyse(target)
    except NotAnalysedError as error:
        sys.exit(f"shardlift: {error}")


def analyse(target: str) -> None:
    """Note for the running record what is proven of each pair that a function returns."""
    for function, args in _pairs(target):
        noted = getattr(function, ANALYSE, None)
        if noted is None:
            name = getattr(function, "__name__", repr(function))
            raise NotAnalysedError(f"{target} returns {name}, which is not pmapped or not recorded")
        noted(*args)


def _pairs(target: str) -> list[tuple[Any, Sequence[Any]]]:
    module, _, name = target.partition(":")
    try:
        example = getattr(importlib.import_module(module), name)
    except (ModuleNotFoundError, AttributeError) as error:
        raise NotAnalysedError(f"{target} is not there: {error}") from error
    returned = example()
    pairs = [returned] if isinstance(returned, tuple) else returned
    if not isinstance(pairs, list) or not all(map(_is_pair, pairs)):
        raise NotAnalysedError(
            f"{target} has to return (function, arguments) or a list of these, not {returned!r}"
        )
    return pairs


def _is_pair(pair: object) -> bool:
    return isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[1], (tuple, list))


if __name__ == "__main__":
    main(sys.argv[1:])
