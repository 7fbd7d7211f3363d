"""``pytest -p shardlift.pytest``: runs an unmodified test suite of pmap programs on today's JAX.

Everything that `shardlift.legacy` restores is in place before the first test or conftest is
imported. ``--shardlift-devices 8`` gives the tests virtual CPU devices.
"""

import contextlib
from typing import Any

import pytest

_restored = contextlib.ExitStack()


def pytest_addoption(parser: Any) -> None:
    """Add the option."""
    group = parser.getgroup("shardlift")
    group.addoption("--shardlift-devices", type=int, metavar="N", help="Virtual CPU devices.")


def pytest_load_initial_conftests(early_config: Any) -> None:
    """Restore what JAX removed, before conftest files are imported."""
    from shardlift._legacy import legacy

    devices = early_config.known_args_namespace.shardlift_devices
    if devices is not None:
        from shardlift.launch.program import use_virtual_devices

        if devices < 1:
            raise pytest.UsageError(f"--shardlift-devices is a number from 1, not {devices}")
        try:
            use_virtual_devices(devices)
        except RuntimeError as error:
            why = f"--shardlift-devices {devices} comes too late, {error}"
            raise pytest.UsageError(why) from None
    _restored.enter_context(legacy())


def pytest_unconfigure() -> None:
    """Restore JAX."""
    _restored.close()
