"""``python -m tests.fuzz programs --inputs 1000``: what programs print stays.

Programs that use the outputs of pmapped functions on the host are run, migrated to `shard_map` and
to `global`, and run again, in this process.
"""

import contextlib
import io
import os
import tempfile
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

from shardlift import legacy
from shardlift.facts import Capture, Recorder
from shardlift.rewrite.changes import Decisions
from shardlift.rewrite.engine import migrate
from shardlift.rewrite.goal import Goal
from tests.fuzz.host_programs import Writer
from tests.rewrite.captures import dated


@dataclass(frozen=True)
class Finding:
    """A program that prints something else after it was migrated."""

    number: int
    goal: Goal
    before: str
    after: str
    printed: str
    prints: str

    def __str__(self) -> str:
        after = self.after.rpartition("box = Box()")[2]
        before = self.before.rpartition("box = Box()")[2]
        return (
            f"== program {self.number}, --to {self.goal.value}\n{before}\n-- became\n{after}\n"
            f"-- printed\n{self.printed}\n-- prints\n{self.prints}"
        )


def check(number: int, path: Path, counts: Counter[str]) -> list[Finding]:
    """Run, migrate and run again the program of a number; ``path`` is where it is written."""
    return compare(Writer(number).program(), path, counts, number)


def compare(text: str, path: Path, counts: Counter[str], number: int = 0) -> list[Finding]:
    """Run, migrate and run again a program."""
    recorder = Recorder()
    try:
        with legacy(recorder=recorder):
            printed = run(text, path)
    except Exception as error:
        counts[f"not run: {type(error).__name__}"] += 1
        return []
    counts["programs"] += 1
    found = []
    for goal in (Goal.SHARD_MAP, Goal.GLOBAL):
        after, left = migrated(text, path, goal, recorder.capture())
        counts[f"{goal.value}, rewritten"] += after != text
        try:
            with legacy() if left else contextlib.nullcontext():
                prints = run(after, path)
        except Exception:
            prints = traceback.format_exc()[-1500:]
        if prints != printed:
            found.append(Finding(number, goal, text, after, printed, prints))
    return found


def run(text: str, path: Path) -> str:
    """What a program prints."""
    out = io.StringIO()
    path.write_text(text)  # the recorder reads it
    space: dict[str, Any] = {"__name__": "__main__", "__file__": str(path)}
    with contextlib.redirect_stdout(out), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(text, str(path), "exec", dont_inherit=True), space)
    return out.getvalue()


def migrated(text: str, path: Path, goal: Goal, facts: Capture) -> tuple[str, bool]:
    """The text after a migration, and whether something of pmap is left."""
    path.write_text(text)
    given = dated(facts, {str(path): text}) if goal is Goal.GLOBAL else []
    result = migrate(
        [str(path)], lambda p: Path(p).read_bytes(), os.path.exists, goal, Decisions(), given
    )
    assert result.unreadable == (), result.unreadable  # a failure leaves everything stacked
    after = {file.path: file.after for file in result.changed}.get(str(path), text)
    return after, any(file.refused for file in result.files)


def work(count: int, seed: int) -> tuple[str, bool]:
    """Check many programs, and print the first findings; whether there are any."""
    counts: Counter[str] = Counter()
    found: list[Finding] = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(seed, seed + count):
            new = check(number, Path(folder) / "program.py", counts)
            for finding in new[: max(0, 5 - len(found))]:
                print(finding, flush=True)
            found += new
            if number % 100 == 99:  # the functions of programs are gone, their programs are not
                jax.clear_caches()
    return f"{dict(counts)}, {len(found)} findings", bool(found)
