"""What grows with a job: that it is measured, not how much it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.growth import merge_seconds, run_job

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]


def test_a_job_of_two_processes_is_measured(tmp_path: Path) -> None:
    row = run_job(2, 1, tmp_path)
    assert (row.processes, row.devices) == (2, 1)
    assert row.first > 0
    assert row.dispatch > 0
    assert row.size == (tmp_path / "run.json").stat().st_size


def test_all_parts_are_merged() -> None:
    sizes = [merge_seconds(parts)[1] for parts in (1, 8)]
    assert sizes[1] > sizes[0] > 1000
