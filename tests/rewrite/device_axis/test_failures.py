"""A bug of shardlift, planted in each phase: all arrays keep their device axis, and it is said."""

import pkgutil
from collections.abc import Callable
from typing import Any

import pytest

from shardlift.rewrite.goal import Goal
from tests.rewrite.captures import all_proven
from tests.rewrite.device_axis.test_flow import MODEL
from tests.rewrite.test_programs import PLACED, migrated

PACKAGE = "shardlift.rewrite.device_axis"
FILES = {"good.py": MODEL, "bad.py": MODEL}


def _fail_in(monkeypatch: pytest.MonkeyPatch, where: str) -> list[str]:
    """Let a function fail, of the general steps for one file; returns what failed."""
    original: Callable[..., Any] = pkgutil.resolve_name(where)
    failed: list[str] = []

    def planted(*given: Any, **named: Any) -> Any:
        if PACKAGE in where or "bad.py" in repr(given):
            failed.append(where)
            raise KeyError("a bug")
        return original(*given, **named)

    monkeypatch.setattr(where.replace(":", "."), planted)
    return failed


@pytest.mark.parametrize(
    "where",
    [
        f"{PACKAGE}.global_sites:_site",
        f"{PACKAGE}.visitor:Visitor.block",
        f"{PACKAGE}.connections:_connect_call",
        f"{PACKAGE}.solve:_not_whole",
        f"{PACKAGE}.array_text:_text_around",
        "shardlift.rewrite.passes:Rendering.make",
        "shardlift.rewrite.engine:render",
        "shardlift.rewrite.engine:finish",
    ],
)
@pytest.mark.parametrize("goal", [Goal.GLOBAL, Goal.JIT])
def test_a_bug_leaves_all_arrays_as_they_are(
    where: str, goal: Goal, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = all_proven(FILES)
    assert "jax.P()" in migrated(FILES, goal=goal, facts=facts)[0]["good.py"]
    failed = _fail_in(monkeypatch, where)
    after, result = migrated(FILES, goal=goal, facts=facts)
    assert failed
    assert not any("jax.P()" in text for text in after.values())
    reasons = [why for _, why in result.unreadable]
    assert any("all arrays keep their device axis" in reason for reason in reasons)
    assert any("a bug" in reason for reason in reasons)


def test_what_is_nested_too_deeply_is_said() -> None:
    deep = f"{MODEL}number = {' + '.join(['1'] * 600)}\n"
    after, result = migrated({"good.py": MODEL, "bad.py": deep}, goal=Goal.GLOBAL)
    assert "/p/bad.py is nested too deeply to follow" in result.unreadable[0][1]
    assert not any(PLACED.search(text) for text in after.values())
