"""A bug of shardlift in one file or site, planted in each phase: the others are still rewritten."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from shardlift.capture.schema import Capture
from shardlift.rewrite.device_axis.cells import Cell
from shardlift.rewrite.goal import Goal
from shardlift.source.file import File
from tests.rewrite.captures import all_proven
from tests.rewrite.jit_programs import HOLDS, recorded
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
MODULE = "import jax\n\np_step = jax.pmap(lambda x: jax.lax.pmean(x, 'i'), axis_name='i')\n"
USER = """\
import jax
from steps import p_step

params = jax.device_put_replicated(1.0, jax.local_devices())
print(float(jax.tree.map(lambda x: x[0], p_step(params))))
"""


def _belongs(given: object) -> bool:
    """Whether something is of the file in which the bug is."""
    if isinstance(given, File):
        return given.path.endswith("bad.py")
    if isinstance(given, Cell):
        return any(_belongs(point.at) for point in given.points)
    for name in ("file", "at", "before"):
        if (inner := getattr(given, name, None)) is not None and inner is not given:
            return _belongs(inner)
    return str(getattr(given, "path", "")).endswith("bad.py")


def _fail_in(monkeypatch: pytest.MonkeyPatch, where: str) -> list[str]:
    """Let a function fail for one file; returns what failed."""
    name, _, path = where.partition(":")
    owner: Any = importlib.import_module(name)
    *outer, last = path.split(".")
    for attribute in outer:
        owner = getattr(owner, attribute)
    original: Callable[..., Any] = getattr(owner, last)
    failed: list[str] = []

    def planted(*given: Any, **named: Any) -> Any:
        if any(map(_belongs, given)):
            failed.append(where)
            raise KeyError("a bug")
        return original(*given, **named)

    monkeypatch.setattr(owner, last, planted)
    return failed


@pytest.mark.parametrize(
    "where",
    [
        f"{PACKAGE}.global_sites:_sites_in",
        f"{PACKAGE}.rewrites:_cannot_be_written",
        f"{PACKAGE}.visitor:Visitor.block",
        f"{PACKAGE}.dynamic:_named",
        f"{PACKAGE}.outside_access:_other_callers",
        f"{PACKAGE}.connections:_connect_call",
        f"{PACKAGE}.connections:_pick",
        f"{PACKAGE}.connections:_join_calls",
        f"{PACKAGE}.solve:_not_whole",
        f"{PACKAGE}.solve:_unproven",
        f"{PACKAGE}.solve:_of_site",
        f"{PACKAGE}.mesh:may_touch_devices",
        f"{PACKAGE}.mesh:Meshes._defined",
        f"{PACKAGE}.rewrites:_rewrite_site",
        f"{PACKAGE}.rewrites:_rewrite",
        f"{PACKAGE}.dead_code:_dead",
        "shardlift.rewrite.passes:Rendering.make",
        "shardlift.rewrite.engine:render",
        "shardlift.rewrite.engine:finish",
    ],
)
def test_a_bug_in_one_file_leaves_the_others(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = all_proven(FILES)
    failed = _fail_in(monkeypatch, where)
    after, result = migrated(FILES, goal=Goal.GLOBAL, facts=facts)
    assert failed
    assert PLACED.search(after["good.py"])
    assert "jax.P()" in after["good.py"]
    assert not PLACED.search(after["bad.py"])
    reasons = [change.reason for file in result.files for change in file.refused]
    reasons += [why for path, why in result.unreadable if path.endswith("bad.py")]
    assert any("a bug" in str(reason) for reason in reasons)


def test_names_of_a_file_that_is_not_imported_are_not_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _fail_in(monkeypatch, f"{PACKAGE}.visitor:Visitor.block")
    after, _ = migrated({"good.py": TEXT, "bad.py": TEXT}, goal=Goal.GLOBAL)
    assert PLACED.search(after["good.py"])
    after, _ = migrated({"good.py": TEXT, "bad.py": "import good\n" + TEXT}, goal=Goal.GLOBAL)
    assert not PLACED.search(after["good.py"])


def test_a_bug_in_a_recording_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = _fail_in(monkeypatch, f"{PACKAGE}.recordings:_recorded")
    after, _ = migrated(FILES, goal=Goal.GLOBAL, facts=Capture())
    assert failed
    assert PLACED.search(after["good.py"])
    assert not PLACED.search(after["bad.py"])


@pytest.mark.parametrize("phase", ["render", "finish"])
def test_files_that_share_arrays_are_written_together(
    phase: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"steps.py": MODULE, "bad.py": USER}
    assert "jax.P()" in migrated(files, goal=Goal.GLOBAL)[0]["steps.py"]
    _fail_in(monkeypatch, f"shardlift.rewrite.engine:{phase}")
    after, _ = migrated(files, goal=Goal.GLOBAL)
    assert "jax.P()" not in after["steps.py"]
    assert after["bad.py"] == USER


def test_a_step_that_fails_with_jit_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    trial = replace(HOLDS, joined=())
    runs = [
        recorded(text, trial, (name,), 0, file)
        for file, text, name in (("good.py", TEXT, "step"), ("bad.py", OTHER, "other_step"))
    ]
    facts = Capture(sites=tuple(site for run in runs for site in run.sites))
    failed = _fail_in(monkeypatch, "shardlift.rewrite.whole_batch:_choose")
    after, _ = migrated(FILES, goal=Goal.JIT, facts=facts)
    assert failed
    assert "in_shardings" in after["good.py"]
    assert "in_shardings" not in after["bad.py"]


@pytest.mark.parametrize(
    "before",
    ["data = [1]\njax.pmap(lambda x: x + 1)(data)\n", "for key in batch:\n    pass\n"],
)
def test_lists_and_loops_are_followed(before: str) -> None:
    _, result = migrated({"m.py": f"import jax\nbatch = {{}}\n{before}{TEXT}"}, goal=Goal.GLOBAL)
    assert result.unreadable == ()


def test_what_is_nested_too_deeply_is_said() -> None:
    deep = f"{TEXT}number = {' + '.join(['1'] * 600)}\n"
    after, result = migrated({"good.py": TEXT, "bad.py": deep}, goal=Goal.GLOBAL)
    assert [path for path, _ in result.unreadable] == ["/p/bad.py"]
    assert "nested too deeply" in result.unreadable[0][1]
    assert PLACED.search(after["good.py"])
    assert not PLACED.search(after["bad.py"])
