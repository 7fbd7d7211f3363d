"""Run programs before and after `--to global`, in one process, and compare what they print.

    python run_dynamic.py PROGRAMS.json FOLDER

PROGRAMS.json has the files of each program by name. Prints one JSON object: for each program what
differs after a migration with the facts of its run, whether a value lost its axis, and the
reasons why others did not.
"""

from __future__ import annotations

import builtins
import contextlib
import io
import json
import os
import re
import sys
import traceback
import types
from collections.abc import Iterator, Mapping
from pathlib import Path

import jax

from shardlift import legacy
from shardlift.facts import Capture, Recorder
from shardlift.migrate.engine import migrate
from shardlift.migrate.goal import Goal
from tests.migrate.captures import dated
from tests.migrate.run_programs import _forbidden

_PUT = re.compile(r"device_put\(\s*jax\.tree\.map\([\w.]*copy, ")


def printed(folder: Path) -> str:
    """What main.py writes to standard output, run as a script is."""
    path = folder / "main.py"
    code = compile(path.read_text(), str(path), "exec", dont_inherit=True)
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=str(path), __builtins__=builtins)
    with _script(folder, module), contextlib.redirect_stdout(io.StringIO()) as out:
        exec(code, module.__dict__)
    return out.getvalue()


@contextlib.contextmanager
def _script(folder: Path, module: types.ModuleType) -> Iterator[None]:
    known = dict(sys.modules)
    sys.path.insert(0, str(folder))
    sys.modules["__main__"] = module
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - set(known):
            if name == "alias" or str(folder) in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]
        sys.modules["__main__"] = known["__main__"]
        sys.path_importer_cache.clear()


def recorded(folder: Path) -> tuple[str, Capture]:
    """What a program prints under pmap, and what it was seen to do."""
    recorder = Recorder()
    with legacy(recorder=recorder):
        text = printed(folder)
    return text, recorder.capture()


def migrated(folder: Path, target: Path, facts: Capture | None) -> list[str]:
    """Write the migrated program; the reasons for what was left."""
    paths = [str(path) for path in sorted(folder.rglob("*.py"))]
    texts = {path: Path(path).read_text() for path in paths}
    result = migrate(
        paths,
        lambda p: Path(p).read_bytes(),
        os.path.exists,
        Goal.GLOBAL,
        facts=dated(facts, texts),
    )
    texts |= {file.path: file.after for file in result.changed}
    for path, text in texts.items():
        written = target / Path(path).relative_to(folder)
        written.parent.mkdir(parents=True, exist_ok=True)
        written.write_text(text)
    return [change.reason for file in result.files for change in file.refused]


def printed_after(folder: Path) -> str:
    """What the migrated program prints; it calls pmap no more."""
    pmap, jax.pmap = jax.pmap, _forbidden
    try:
        return printed(folder)
    except BaseException:
        return traceback.format_exc()[-1500:]
    finally:
        jax.pmap = pmap


def verdict(folder: Path, files: Mapping[str, str]) -> dict[str, object]:
    """What differs after the migration."""
    before, after = folder / "before", folder / "after"
    for path, text in files.items():
        (before / path).parent.mkdir(parents=True, exist_ok=True)
        (before / path).write_text(text)
    try:
        expected, facts = recorded(before)
    except BaseException:
        return {"wrong": f"before: {traceback.format_exc()[-1500:]}"}
    reasons = migrated(before, after, facts)
    got = printed_after(after)
    texts = [path.read_text() for path in after.rglob("*.py")]
    return {
        "wrong": "" if got == expected else f"{expected}\n---- became\n{got}",
        "whole": any(_PUT.search(text) is not None for text in texts),
        "reasons": reasons,
    }


if __name__ == "__main__":
    programs, root = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    done = {
        name: verdict(root / f"p{number}", files)
        for number, (name, files) in enumerate(programs.items())
    }
    print(json.dumps(done))
