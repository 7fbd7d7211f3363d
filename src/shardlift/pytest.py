"""``pytest -p shardlift.pytest``: runs an unmodified test suite of pmap programs on today's JAX.

Everything that `shardlift.legacy` restores is in place before the first test or conftest is
imported. ``--shardlift-devices 8`` gives the tests virtual CPU devices,
``--shardlift-record FILE`` records every pmap site, and prints a summary at the end;
``--shardlift-no-patch`` restores nothing. The fixture ``assert_same_as_pmap`` is the function of
`shardlift.testing`.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from shardlift.launch.session import RunSession

_sessions: list[RunSession] = []


def pytest_addoption(parser: Any) -> None:
    """Add the options."""
    group = parser.getgroup("shardlift")
    group.addoption("--shardlift-record", metavar="FILE", help="Record every pmap site to FILE.")
    group.addoption("--shardlift-devices", type=int, metavar="N", help="Virtual CPU devices.")
    group.addoption("--shardlift-no-patch", action="store_true", help="Restore nothing.")


def pytest_load_initial_conftests(early_config: Any) -> None:
    """Start the session, before conftest files are imported."""
    from shardlift.capture.parts import part_path
    from shardlift.launch.program import Program
    from shardlift.launch.scheduler import place_by_scheduler
    from shardlift.launch.session import RunOptions, RunSession

    options = early_config.known_args_namespace
    if options.shardlift_devices is not None:
        _use_devices(options.shardlift_devices)
    if options.shardlift_record and getattr(options, "numprocesses", None):
        raise pytest.UsageError("--shardlift-record records one process: leave out -n")
    record = options.shardlift_record
    if record and (place := place_by_scheduler(os.environ)):
        record = part_path(record, place[0])  # under MPI or Slurm, a file for each process
    chosen = RunOptions(patch=not options.shardlift_no_patch, record=record)
    session = RunSession(chosen, Program("pytest", tuple(sys.argv[1:]), module=True))
    session.keep_writing()
    _sessions.append(session)


def _use_devices(devices: int) -> None:
    from shardlift.launch.program import use_virtual_devices

    if devices < 1:
        raise pytest.UsageError(f"--shardlift-devices is a number from 1, not {devices}")
    try:
        use_virtual_devices(devices)
    except RuntimeError as error:
        raise pytest.UsageError(f"--shardlift-devices {devices} comes too late, {error}") from None


@pytest.fixture(scope="session", name="assert_same_as_pmap")
def _assert_same_as_pmap() -> Any:
    """`shardlift.testing.assert_same_as_pmap`, without an import."""
    from shardlift.testing import assert_same_as_pmap

    return assert_same_as_pmap


def pytest_sessionfinish() -> None:
    """Write the record."""
    for session in _sessions:
        session.end(quiet=True)


def pytest_terminal_summary(terminalreporter: Any, config: Any) -> None:
    """Print what was used, unless the tests ran in workers of pytest-xdist."""
    for session in _sessions if not config.pluginmanager.hasplugin("dsession") else ():
        for line in session.lines():
            terminalreporter.write_line(f"shardlift: {line}")


def pytest_unconfigure() -> None:
    """Restore JAX."""
    while _sessions:
        _sessions.pop().session.exit()
