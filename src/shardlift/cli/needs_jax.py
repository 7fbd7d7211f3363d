"""Commands that need JAX say so before anything else is done."""

from __future__ import annotations

import importlib.metadata
import sys
from typing import NoReturn

import click

from shardlift.source.model import version

OLDEST = (0, 10)


def refuse_old_jax(command: str) -> None:
    """Exit with 2 if the JAX that is installed is one that still has all of pmap."""
    try:
        found = importlib.metadata.version("jax")
        if version(found) >= OLDEST:
            return
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return  # without JAX the program itself will say so; a version of no known form may do
    click.echo(
        f"shardlift {command}: JAX {found} is installed, and 0.10 or newer is needed. That one "
        "runs pmap programs as they are; `shardlift record-legacy` records them there.",
        err=True,
    )
    sys.exit(2)


def refuse_no_jax(command: str, error: ImportError) -> NoReturn:
    """Exit with 2 because JAX, or what it needs, cannot be imported."""
    click.echo(f'shardlift {command}: {error}: pip install "shardlift[jax]"', err=True)
    sys.exit(2)
