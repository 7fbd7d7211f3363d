"""Run programs, migrate them to global arrays, run them again, and compare the numbers.

    python -m tests.rewrite.run_global FOLDER

In FOLDER each program has a folder with `before/`. It is migrated with the facts of its own run.
Prints one JSON object: for each program what went wrong (None if nothing did), whether an array
lost its device axis, and the findings.
"""

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

from shardlift import legacy
from shardlift.facts import Capture, Recorder
from shardlift.rewrite.engine import migrate
from shardlift.rewrite.goal import Goal
from tests.rewrite import run_programs
from tests.rewrite.captures import dated

ROUNDING = 8  # ulps, over some steps of training


def recorded(folder: Path) -> tuple[Any, Capture]:
    """What the program returns, and what it was seen to do."""
    recorder = Recorder()
    with legacy(recorder=recorder):
        returned = run_programs.imported(folder)
    return returned, recorder.capture()


def migrated(root: Path, facts: Capture) -> dict[str, Any]:
    """Write the migrated program beside the original; what came of it, and its findings."""
    before = root / "before"
    paths = [str(path) for path in sorted(before.rglob("*.py"))]
    read = lambda path: Path(path).read_bytes()
    texts = {path: Path(path).read_text() for path in paths}
    captures = dated(facts, texts)
    result = migrate(paths, read, os.path.exists, Goal.GLOBAL, None, captures)
    texts |= {file.path: file.after for file in result.changed}
    written = {str(Path(path).relative_to(before)): text for path, text in texts.items()}
    run_programs.write_files(root / "after", written)
    said = [place.reason for file in result.files for place in file.refused]
    is_whole = any("jax.P()" in text for text in texts.values())
    return {"is_whole": is_whole, "findings": said}


def verdict(folder: Path) -> dict[str, Any]:
    """What came of one program."""
    try:
        expected, facts = recorded(folder / "before")
        found = migrated(folder, facts)
        with legacy():
            got = run_programs.run(folder / "after", before=False)
        return {**found, "wrong": run_programs.difference(expected, got, ROUNDING)}
    except Exception:
        return {"wrong": traceback.format_exc()[-1500:]}


if __name__ == "__main__":
    folders = sorted(Path(sys.argv[1]).iterdir())
    print(json.dumps({folder.name: verdict(folder) for folder in folders}))
