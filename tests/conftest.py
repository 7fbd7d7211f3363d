"""Eight virtual CPU devices and strict dtype promotion, set before JAX is imported."""

from __future__ import annotations

import os
import resource
import signal
import threading

import pytest

from tests.watchdog import watch

# A job in the background of a shell ignores Ctrl-C, and so would every program that a test starts.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ.pop("COLUMNS", None)  # what is printed must not depend on the terminal
os.environ.update(JAX_NUM_CPU_DEVICES="8", JAX_PLATFORMS="cpu", JAX_NUMPY_DTYPE_PROMOTION="strict")
# A program that hangs is ended with SIGABRT: it writes its stacks, and no core.
os.environ["PYTHONFAULTHANDLER"] = "1"
resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))

SLOW = 900  # seconds that a slow test has; others have those of pyproject.toml


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give slow tests more time, unless they say how much."""
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW))


def pytest_timeout_set_timer(item: pytest.Item, settings: object) -> bool:
    """Watch a test, in the way of `watchdog.py`."""
    item.cancel_timeout = watch(item.nodeid, settings.timeout)  # type: ignore[attr-defined]
    return True


def pytest_timeout_cancel_timer(item: pytest.Item) -> bool:
    """Its end has come in time."""
    if stop := getattr(item, "cancel_timeout", None):
        stop()
    return True
