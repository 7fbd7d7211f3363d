"""Run programs, migrate them to global arrays, run them again, and compare every bit.

    python run_global.py FOLDER

In FOLDER each program has a folder with `before/`. It is run under a recorder, migrated without
what was recorded and with it, and both results are run. Prints one JSON object: for each program
what went wrong (None if nothing did), how many sites have global arrays, and the findings, each
for both ways.
"""

from __future__ import annotations

import ast
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

from shardlift import legacy
from shardlift.codemod.migration.engine import migrate
from shardlift.codemod.migration.helpers import catalogue
from shardlift.codemod.migration.rewrite import Goal
from shardlift.facts import Capture, Recorder
from tests.codemod.migration import run_programs

FORMS = ("shard_map_on_devices", "shard_map_per_device", "jit_per_device")


def recorded(folder: Path) -> tuple[Any, Capture]:
    """What the program returns, and what it was seen to do."""
    recorder = Recorder()
    with legacy(recorder=recorder):
        returned = run_programs.imported(folder)
    return returned, recorder.capture()


def migrated(root: Path, way: str, facts: Capture | None) -> dict[str, Any]:
    """Write the migrated program beside the original; its sites by form, and its findings."""
    before = root / "before"
    paths = [str(path) for path in sorted(before.rglob("*.py"))]
    strict = way == "strict"
    result = migrate(
        paths, lambda path: Path(path).read_bytes(), os.path.exists, Goal.GLOBAL, facts, strict
    )
    texts = {path: Path(path).read_text() for path in paths}
    texts |= {file.path: file.after for file in result.changed}
    for path, text in texts.items():
        target = root / way / Path(path).relative_to(before)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    said = [place.text for file in result.files for place in file.refused]
    sites = {form: sum(_count(form, text) for text in texts.values()) for form in FORMS}
    put = sum(_count("put_on_every_device", text) for text in texts.values())
    return {"sites": sites, "findings": said, "put": put}


def _count(name: str, text: str) -> int:
    """How often a text uses a function, outside of the definitions of helpers."""
    tree = ast.parse(text)
    helpers = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name in catalogue()]
    inside = {id(node) for helper in helpers for node in ast.walk(helper)}
    names = (n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == name)
    return sum(id(node) not in inside for node in names)


def verdict(folder: Path) -> dict[str, Any]:
    """What came of one program, both ways."""
    found: dict[str, Any] = {}
    try:
        expected, facts = recorded(folder / "before")
    except Exception:
        return {"wrong": f"before: {traceback.format_exc()[-1500:]}"}
    for way, given in (("text", None), ("facts", facts)):
        try:
            found[way] = migrated(folder, way, given)
            with legacy():
                got = run_programs.run(folder / way, before=False)
            found[way]["wrong"] = run_programs.difference(expected, got)
        except Exception:
            found[way] = {"wrong": f"after, {way}: {traceback.format_exc()[-1500:]}"}
    return found


if __name__ == "__main__":
    folders = sorted(Path(sys.argv[1]).iterdir())
    print(json.dumps({folder.name: verdict(folder) for folder in folders}))
