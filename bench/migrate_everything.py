"""`shardlift migrate` over every .py file of folders: what holds of each, and what was done.

    python -m bench.migrate_everything [FOLDER]...

Without a folder, the site-packages of this interpreter. Every new text has to parse, to keep each
line that was not rewritten, and to stay as it is when it is migrated again; else this ends with a
traceback. Nothing is written.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import time
from collections import Counter
from pathlib import Path

from tests.rewrite.properties import lost_line, parses

from shardlift.rewrite.engine import migrate
from shardlift.rewrite.results import Migration


def main(folders: list[str]) -> None:
    folders = folders or [sysconfig.get_paths()["purelib"]]
    for folder in folders:
        files = sorted(str(path) for path in Path(folder).rglob("*.py"))
        start = time.process_time()
        result = migrate(files, lambda path: Path(path).read_bytes(), os.path.exists)
        seconds = time.process_time() - start
        hold(result)
        report(folder, files, result, seconds)


def hold(result: Migration) -> None:
    for file in result.changed:
        assert parses(file), file.path
        assert lost_line(file) is None, lost_line(file)
    new = {file.path: file.after.encode() for file in result.changed}
    again = migrate(
        list(new),
        lambda path: new[path] if path in new else Path(path).read_bytes(),
        lambda path: path in new or os.path.exists(path),
    )
    assert not again.changed, [file.path for file in again.changed]


def report(folder: str, files: list[str], result: Migration, seconds: float) -> None:
    rewritten = sum(len(file.rewritten) for file in result.files)
    reasons = Counter(place.reason[:60] for file in result.files for place in file.refused)
    print(f"{folder}: {len(files)} files, {seconds:.1f} s")
    print(f"  {rewritten} places rewritten in {len(result.changed)} files", end="")
    print(f", {len(result.unreadable)} files not looked at")
    for reason, count in reasons.most_common():
        print(f"  {count} left: {reason}")


if __name__ == "__main__":
    main(sys.argv[1:])
