"""What is installed here that is not supported, or that no test covers."""

from __future__ import annotations

import platform
import sys
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from shardlift.source.model import Version, version
from shardlift.source.target import NEWEST, oldest_flax

# The Pythons for which JAX has wheels and that the tests were run with.
NEWEST_PYTHON = (3, 14)


@dataclass(frozen=True)
class Installed:
    """The versions of this machine; None for what is not installed."""

    python: tuple[int, int]
    jax: str | None
    jaxlib: str | None
    flax: str | None
    system: str
    has_gil: bool = True


def installed_here(version_of: Callable[[str], str | None]) -> Installed:
    """What is installed here; `version_of` gives the version of a package."""
    return Installed(
        python=sys.version_info[:2],
        jax=version_of("jax"),
        jaxlib=version_of("jaxlib"),
        flax=version_of("flax"),
        system=platform.system(),
        has_gil=not sysconfig.get_config_var("Py_GIL_DISABLED"),
    )


def unsupported(here: Installed) -> Iterator[str]:
    """One sentence for each thing that is not supported, with the way out."""
    if here.system == "Windows":
        yield "on Windows only check, migrate, report and status are supported; use WSL"
    if here.python > NEWEST_PYTHON:
        yield f"Python {_text(here.python)} is newer than the tested {_text(NEWEST_PYTHON)}"
    if not here.has_gil:
        yield "a Python without the GIL is not tested"
    jax, jaxlib, flax = (_parsed(text) for text in (here.jax, here.jaxlib, here.flax))
    if jax is None:
        return
    if jax[:2] > NEWEST:
        yield f"JAX {here.jax} is newer than the tested {_text(NEWEST)}"
    if jaxlib is not None and jaxlib[:2] != jax[:2]:
        yield f"jaxlib {here.jaxlib} does not fit JAX {here.jax}: pip install -U jax jaxlib"
    if flax is not None and flax < oldest_flax(jax):
        wanted = _text(oldest_flax(jax))
        yield f"flax {here.flax} fails on JAX {here.jax}: pip install -U 'flax>={wanted}'"


def _parsed(text: str | None) -> Version | None:
    try:
        return version(text) if text else None
    except ValueError:
        return None


def _text(number: Version) -> str:
    return ".".join(map(str, number))
