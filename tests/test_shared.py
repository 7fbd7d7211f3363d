"""What workers share is computed once, and a failure is nobody's result."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import shared


def test_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(shared.FOLDER, str(tmp_path))
    calls: list[int] = []

    def compute() -> dict[str, int]:
        calls.append(len(calls))
        if len(calls) == 1:
            raise AssertionError("not this time")
        return {"calls": len(calls)}

    with pytest.raises(AssertionError, match="not this time"):
        shared.once("a name", compute)
    assert [shared.once("a name", compute) for _ in range(2)] == [{"calls": 2}] * 2
