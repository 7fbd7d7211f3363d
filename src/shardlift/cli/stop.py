"""How a command stops: with an error, or by a signal."""

import contextlib
import importlib.metadata
import importlib.util
import signal
import sys
import threading
from collections.abc import Iterator
from typing import NoReturn

import click

from shardlift._escape import escape_control
from shardlift.source.model import version

OLDEST = (0, 10)  # JAX


def stop(message: str, status: int = 2) -> NoReturn:
    """Print `shardlift COMMAND: message` to standard error and exit; as JSON too, if asked for."""
    context = click.get_current_context(silent=True)
    command = context.info_name or "" if context is not None else ""
    click.echo(
        escape_control(f"{f'shardlift {command}'.strip()}: {message}", keep="\n\t"), err=True
    )
    if context is not None and context.params.get("style") == "json":
        from shardlift.cli.document import document, item

        click.echo(document(command, status, left=[item("stopped", message)]))
    sys.exit(status)


@contextlib.contextmanager
def end_by_exception() -> Iterator[None]:
    """Signals that end a process raise, as Ctrl-C does: files and folders are tidied up first."""
    names = ("SIGTERM", "SIGHUP") if threading.current_thread() is threading.main_thread() else ()
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    before = {number: signal.signal(number, _end) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, _: object) -> None:
    raise SystemExit(128 + number)


def need_jax() -> None:
    """Exit with 2 if JAX is not installed, or is older than 0.10."""
    if importlib.util.find_spec("jax") is None:
        stop('JAX is not installed: pip install "shardlift[jax]"')
    stop_if_jax_is_too_old()


def installed_version(package: str) -> str:
    """The version of an installed package; empty if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def stop_if_jax_is_too_old() -> None:
    """Exit with 2 if the installed JAX is older than 0.10; one that cannot be told may be fine."""
    with contextlib.suppress(ValueError):
        installed = installed_version("jax")
        if version(installed) < OLDEST:
            stop(
                f"JAX {installed} is installed, but 0.10 or newer is needed. That version still "
                "runs pmap programs unmodified; examples/record_legacy.py, in the repository of "
                "shardlift, records them there."
            )
