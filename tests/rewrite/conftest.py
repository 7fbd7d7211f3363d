"""Sites of small texts, rewritten as those of a script."""

import pytest

from shardlift.rewrite import explicit_sites, sites


@pytest.fixture
def row_per_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call has one row per device, and is written at its site."""
    monkeypatch.setattr(sites, "is_written_out", lambda file: True)
    monkeypatch.setattr(explicit_sites, "may_have_other_rows", lambda *_: False)
