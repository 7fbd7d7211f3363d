"""Signals to a process that leads its own group, and to all that it started."""

import os
import subprocess
from contextlib import suppress
from typing import Any


def signal_group(leader: subprocess.Popen[Any], number: int) -> None:
    """Send a signal to all that is left of a group.

    The id of a leader that was waited for may belong to another process by now. The kernel does
    not give it away as long as the group has a member; if it is in use, the group is gone.
    """
    with suppress(ProcessLookupError, PermissionError):
        if leader.poll() is None or not _in_use(leader.pid):
            os.killpg(leader.pid, number)


def _in_use(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
