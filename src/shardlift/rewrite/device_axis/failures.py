"""Contains internal errors: a crash in one file or site does not stop the others.

A failure may leave the cells half done. So everything is followed again, without that file.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import ParamSpec

from shardlift.rewrite.device_axis.reasons import Obstacle, ObstacleKind, obstacle
from shardlift.source.file import File

_P = ParamSpec("_P")
PLEASE_REPORT = "shardlift failed to follow it, please report it"


class NotFollowedError(Exception):
    """A failure that is due to one file."""

    def __init__(self, file: File, cause: Exception) -> None:
        """`cause` is what was raised."""
        super().__init__(file.path)
        self.file = file
        self.cause = cause


@contextlib.contextmanager
def blame(file: File) -> Iterator[None]:
    """Raise NotFollowedError for whatever fails here, unless it is another file's."""
    try:
        yield
    except NotFollowedError:
        raise
    except Exception as error:
        raise NotFollowedError(file, error) from error


def or_failure(
    why: Callable[_P, Obstacle | None], *given: _P.args, **named: _P.kwargs
) -> Obstacle | None:
    """The reason that a function finds against a change; its failure is a reason as well."""
    try:
        return why(*given, **named)
    except Exception as error:
        return obstacle(ObstacleKind.FAILED, None, error=error)
