"""Checks that commands which need JAX make before they do anything else."""

from __future__ import annotations

import importlib.metadata
from typing import NoReturn

from shardlift.cli.stop import stop
from shardlift.source.model import version

OLDEST = (0, 10)


def stop_if_jax_is_too_old() -> None:
    """Exit with 2 if the installed JAX is older than 0.10."""
    try:
        installed = importlib.metadata.version("jax")
        too_old = version(installed) < OLDEST
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return  # without JAX the import fails later; a version that cannot be read may be fine
    if too_old:
        stop(
            f"JAX {installed} is installed, but 0.10 or newer is needed. That version still runs "
            "pmap programs unmodified; `shardlift record-legacy` records them there."
        )


def stop_without_jax(error: ImportError) -> NoReturn:
    """Exit with 2 because JAX, or something that it needs, cannot be imported."""
    stop(f'{error}: pip install "shardlift[jax]"')
