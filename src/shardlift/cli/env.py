"""``shardlift env``: versions and devices for a bug report."""

from __future__ import annotations

import importlib.metadata
import os
import platform

import click

from shardlift import __version__

__all__ = ["env"]

_PACKAGES = ("jax", "jaxlib", "numpy", "flax", "click", "rich")
_PREFIXES = ("JAX_", "XLA_")


@click.command(
    short_help="Print versions and devices for a bug report.", epilog="Example: shardlift env"
)
@click.option("--devices/--no-devices", default=True, help="Ask JAX for its devices.")
def env(devices: bool) -> None:
    """Print versions, settings and devices, to paste into a bug report."""
    lines = [("shardlift", __version__), ("python", platform.python_version())]
    lines += [("platform", platform.platform())]
    lines += [(name, _version(name)) for name in _PACKAGES]
    lines += sorted((k, v) for k, v in os.environ.items() if k.startswith(_PREFIXES))
    if devices:
        lines.append(("devices", _devices()))
    for name, value in lines:
        click.echo(f"{name}: {value}")


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _devices() -> str:
    try:
        import jax
    except ModuleNotFoundError as error:
        if error.name == "jax":
            return "JAX is not installed"
        return f"JAX cannot be imported: {error}"
    except Exception as error:  # a jaxlib of another version, a jax.py of the user's
        return f"JAX cannot be imported: {type(error).__name__}: {error}"
    try:
        devices = [f"{d.platform}:{d.id} {d.device_kind}" for d in jax.devices()]
    except Exception as error:  # JAX_PLATFORMS names a platform that is not there
        return f"JAX found none: {error}"
    return f"{len(devices)} ({devices[0]}{', ...' if len(devices) > 1 else ''})"
