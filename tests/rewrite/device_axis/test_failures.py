"""A bug of shardlift, planted in each phase: all arrays keep their device axis, and it is said."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from typing import Any

import pytest

from shardlift.rewrite.goal import Goal
from tests.rewrite.captures import all_proven
from tests.rewrite.test_programs import PLACED, migrated

TEXT = """\
import jax
import jax.numpy as jnp


def step(params):
    return jax.lax.pmean(params, "i")


p_step = jax.pmap(step, axis_name="i")


def place(x):
    return jax.device_put_replicated(x, jax.local_devices())


def first(x):
    return jax.tree.map(lambda x: x[0], x)


def main():
    params = place(jnp.ones(()))
    params = p_step(params)
    print(first(params), float(params[0]))


if __name__ == "__main__":
    main()
"""
PACKAGE = "shardlift.rewrite.device_axis"
NAMES = ("step", "p_step", "place", "first", "main", "params")
OTHER = re.sub(rf"\b({'|'.join(NAMES)})\b", r"other_\1", TEXT)
FILES = {"good.py": TEXT, "bad.py": OTHER}


def _fail_in(monkeypatch: pytest.MonkeyPatch, where: str) -> list[str]:
    """Let a function fail, of the general steps for one file; returns what failed."""
    name, _, path = where.partition(":")
    owner: Any = importlib.import_module(name)
    *outer, last = path.split(".")
    for attribute in outer:
        owner = getattr(owner, attribute)
    original: Callable[..., Any] = getattr(owner, last)
    failed: list[str] = []

    def planted(*given: Any, **named: Any) -> Any:
        if PACKAGE in where or "bad.py" in repr(given):
            failed.append(where)
            raise KeyError("a bug")
        return original(*given, **named)

    monkeypatch.setattr(owner, last, planted)
    return failed


@pytest.mark.parametrize(
    "where",
    [
        f"{PACKAGE}.global_sites:_site",
        f"{PACKAGE}.visitor:Visitor.block",
        f"{PACKAGE}.connections:_connect_call",
        f"{PACKAGE}.solve:_not_whole",
        f"{PACKAGE}.array_text:_text_around",
        f"{PACKAGE}.rewrites:_mentions",
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
    deep = f"{TEXT}number = {' + '.join(['1'] * 600)}\n"
    after, result = migrated({"good.py": TEXT, "bad.py": deep}, goal=Goal.GLOBAL)
    assert "/p/bad.py is nested too deeply to follow" in result.unreadable[0][1]
    assert not any(PLACED.search(text) for text in after.values())
