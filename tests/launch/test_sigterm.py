"""SIGTERM in a process of a job."""

from __future__ import annotations

import select

from shardlift.launch.sigterm import Sigterm


def test_whoever_waits_for_it_can_wait_before_it_listens():
    """A job may be joined in another thread, where signals cannot be listened to."""
    sigterm = Sigterm()
    with sigterm.source, sigterm._wakeup:
        assert select.select([sigterm.source], [], [], 0) == ([], [], [])
