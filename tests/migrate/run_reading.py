"""Run programs before and after a migration, in one process, and compare what they print.

    python run_reading.py PROGRAMS.json FOLDER

PROGRAMS.json has texts by name. Each is migrated to every goal, to global arrays with and without
the facts of its own run. Prints one JSON object: for each program, the goals that went wrong and
how, and those that changed a read.
"""

from __future__ import annotations

import contextlib
import io
import json
import runpy
import sys
import traceback
from pathlib import Path

import jax

from shardlift import legacy
from shardlift.facts import Capture, Recorder
from shardlift.migrate.engine import migrate
from shardlift.migrate.goal import Goal
from tests.migrate.captures import dated
from tests.migrate.run_programs import _forbidden


def printed(path: Path) -> str:
    """What a program writes to standard output."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        runpy.run_path(str(path), run_name="__main__")
    return out.getvalue()


def recorded(path: Path) -> tuple[str, Capture]:
    """What a program prints under pmap, and what it was seen to do."""
    recorder = Recorder()
    with legacy(recorder=recorder):
        text = printed(path)
    return text, recorder.capture()


def migrated(path: Path, goal: Goal, facts: Capture | None) -> str:
    """The text of a program after its migration."""
    only = str(path)
    result = migrate(
        [only],
        lambda _: path.read_bytes(),
        lambda p: p == only,
        goal,
        facts=dated(facts, {only: path.read_text()}),
    )
    (file,) = result.files
    return file.after


def after(path: Path, goal: Goal) -> str:
    """What the migrated program prints; with global or shard_map it calls pmap no more."""
    if goal is Goal.SHIM:
        return printed(path)
    pmap, jax.pmap = jax.pmap, _forbidden
    try:
        return printed(path)
    finally:
        jax.pmap = pmap


def verdict(path: Path) -> dict[str, str]:
    """What went wrong, by goal."""
    wrong: dict[str, str] = {}
    try:
        expected, facts = recorded(path)
    except Exception:
        return {"before": traceback.format_exc()[-1500:]}
    ways = [(goal.value, goal, None) for goal in (Goal.SHARD_MAP, Goal.GLOBAL, Goal.SHIM)]
    texts: dict[str, str] = {}
    for name, goal, known in [*ways, ("facts", Goal.GLOBAL, facts)]:
        text = migrated(path, goal, known)
        if text in texts.values():
            continue
        texts[name] = text
        target = path.with_name(f"{path.stem}_{name}.py")
        target.write_text(text)
        try:
            got = after(target, goal)
        except Exception:
            got = traceback.format_exc()[-1500:]
        if got != expected:
            wrong[name] = f"{expected}\n---- became\n{got}\n---- in\n{text}"
    return wrong


if __name__ == "__main__":
    programs, folder = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    found: dict[str, dict[str, str]] = {}
    for number, (name, text) in enumerate(programs.items()):
        path = folder / f"program{number}.py"
        path.write_text(text)
        found[name] = verdict(path)
    print(json.dumps(found))
