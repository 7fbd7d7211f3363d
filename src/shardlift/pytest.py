"""``pytest -p shardlift.pytest``: runs an unmodified test suite of pmap programs on today's JAX.

Everything that `shardlift.legacy` restores is in place before the first test or conftest is
imported. ``--shardlift-record FILE`` records every pmap site; ``--shardlift-no-patch`` restores
nothing.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shardlift.launch.session import RunSession

_sessions: list[RunSession] = []


def pytest_addoption(parser: Any) -> None:
    """Add the options."""
    group = parser.getgroup("shardlift")
    group.addoption("--shardlift-record", metavar="FILE", help="Record every pmap site to FILE.")
    group.addoption("--shardlift-no-patch", action="store_true", help="Restore nothing.")


def pytest_load_initial_conftests(early_config: Any) -> None:
    """Start the session, before conftest files are imported."""
    from shardlift.launch.program import Program
    from shardlift.launch.session import RunOptions

    options = early_config.known_args_namespace
    record = options.shardlift_record
    worker = os.environ.get("PYTEST_XDIST_WORKER")  # each writes a file of its own
    chosen = RunOptions(
        patch=not options.shardlift_no_patch,
        record=f"{record}.{worker}" if record and worker else record,
    )
    _sessions.append(chosen.begin(Program("pytest", tuple(sys.argv[1:]), module=True)))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print what was used."""
    for session in _sessions:
        session.write()
        for line in session.lines():
            terminalreporter.write_line(f"shardlift: {line}")


def pytest_unconfigure() -> None:
    """Write the record, and restore JAX."""
    while _sessions:
        session = _sessions.pop()
        session.write()
        session.session.exit()
