"""A catalogue of errors that people meet when they leave pmap: `errors.toml`.

When one of them passes through a pmapped call, `add_hint` adds its cause and fix to the exception
as a note; its type and text stay.
"""

import functools
import re
import tomllib
from pathlib import Path
from typing import NamedTuple


class Hint(NamedTuple):
    """One known error: how to recognise it, its cause and its fix."""

    name: str
    pattern: str
    cause: str
    fix: str

    def __str__(self) -> str:
        return f"shardlift: {self.name}\n  cause: {self.cause}\n  fix: {self.fix}"


@functools.cache  # read when an error passes through: a first call needs none of it
def catalogue() -> tuple[Hint, ...]:
    """The known errors."""
    text = Path(__file__).with_suffix(".toml").read_text("utf-8")
    return tuple(Hint(**hint) for hint in tomllib.loads(text)["hint"])


def hint_for(error: BaseException) -> Hint | None:
    """The catalogue entry for this error, if there is one.

    >>> hint_for(ValueError("Received incompatible devices for jitted computation")).name
    'incompatible-devices'
    >>> hint_for(ValueError("something else")) is None
    True
    """
    text = str(error)
    return next((hint for hint in catalogue() if re.search(hint.pattern, text, re.DOTALL)), None)


def is_about_placement(error: BaseException) -> bool:
    """Can this error come from the placement of the inputs, rather than from the function?

    JAX (0.10 to 0.12) raises a KeyError, or fails to lower the program, for an input whose
    type names another mesh.
    """
    hint = hint_for(error)
    known = hint is not None and hint.name in ("incompatible-devices", "context-mesh")
    return known or isinstance(error, KeyError) or "sdy.manual_computation" in str(error)


def add_hint(error: BaseException) -> None:
    """Add the catalogue entry for this error to it as a note, once."""
    hint = hint_for(error)
    if hint is not None and str(hint) not in getattr(error, "__notes__", ()):
        error.add_note(str(hint))
