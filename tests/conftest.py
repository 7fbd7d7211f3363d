"""Eight virtual CPU devices, strict promotion of dtypes and ranks, and an end to every test."""

import compileall
import os
import resource
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

import shardlift
from tests import shared
from tests.children import QUICK
from tests.watchdog import watch

# A job in the background of a shell ignores Ctrl-C, and so would every program that a test starts.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ.pop("COLUMNS", None)  # what is printed must not depend on the terminal
os.environ.update(JAX_NUM_CPU_DEVICES="8", JAX_PLATFORMS="cpu", JAX_NUMPY_DTYPE_PROMOTION="strict")
# Two threads per device, as `shardlift run --devices` gives: see `launch/program.py`.
os.environ.setdefault("PJRT_NPROC", "16")
# A program that hangs is ended with SIGABRT: it writes its stacks, and no core.
os.environ["PYTHONFAULTHANDLER"] = "1"
resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))

# How long an example takes says nothing on a busy machine.
hypothesis.settings.register_profile("no deadline", deadline=None)
hypothesis.settings.load_profile("no deadline")

SLOW = 900  # seconds that a slow test has; pyproject.toml has the limit of others


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--exhaustive`, with which `.ci/run` runs everything."""
    text = "also run what is marked `exhaustive`, and let XLA optimise as it does for users"
    parser.addoption("--exhaustive", action="store_true", help=text)


def pytest_configure(config: pytest.Config) -> None:
    """Before any test module, and with it JAX, is imported."""
    os.environ.setdefault(QUICK, "0" if config.getoption("exhaustive") else "1")
    if shared.FOLDER not in os.environ:  # else this is a worker of xdist
        os.environ[shared.FOLDER] = folder = tempfile.mkdtemp(prefix="tests-")
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
        # Where PYTHONDONTWRITEBYTECODE is set, each program that a test starts would do this.
        compileall.compile_dir(Path(shardlift.__file__).parent, quiet=2)
    os.environ.update(shared.compilation_cache())


@pytest.fixture(scope="session", autouse=True)
def strict_ranks() -> None:
    """What is written here promotes no rank by itself; programs that tests start may."""
    import jax

    jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture
def ranks_are_promoted() -> Iterator[None]:
    """For programs as users write them."""
    import jax

    with jax.numpy_rank_promotion("allow"):
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave exhaustive tests out unless asked for; give slow ones more time, and no coverage."""
    if not config.getoption("exhaustive"):
        left_out = [item for item in items if item.get_closest_marker("exhaustive")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    measured = config.pluginmanager.hasplugin("_cov")  # --cov
    for item in items:
        if item.get_closest_marker("exhaustive"):
            item.add_marker("slow")
        if measured and item.get_closest_marker("slow"):
            item.add_marker("no_cover")
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW))
    if worker := getattr(config, "workerinput", None):
        items[:] = _slow_ones_first(items, worker["workercount"])


def _slow_ones_first(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """An order in which no worker is left with slow tests while the others have nothing to do.

    xdist cuts the list into as many parts as there are workers: each begins with its slow tests.
    """
    slow = [item for item in items if item.get_closest_marker("slow")]
    quick = [item for item in items if not item.get_closest_marker("slow")]
    ordered = []
    for k in range(workers):
        for kind in (slow, quick):
            ordered += kind[len(kind) * k // workers : len(kind) * (k + 1) // workers]
    return ordered


def pytest_timeout_set_timer(item: pytest.Item, settings: object) -> bool:
    """Watch a test, in the way of `watchdog.py`."""
    item.cancel_timeout = watch(item.nodeid, settings.timeout)  # type: ignore[attr-defined]
    return True


def pytest_timeout_cancel_timer(item: pytest.Item) -> bool:
    """Its end has come in time."""
    if stop := getattr(item, "cancel_timeout", None):
        stop()
    return True


@pytest.fixture
def many_sites(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every site that is rewritten is one of many, which share `spmd_map`."""
    from shardlift.rewrite import sites

    monkeypatch.setattr(sites, "is_written_out", lambda file: False)
