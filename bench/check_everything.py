"""`shardlift check` over every .py file of folders: no crash, and the time a megabyte.

    python bench/check_everything.py [FOLDER]...

Without a folder, the site-packages of this interpreter and its standard library. A file that is
not Python 3 is counted as such; anything else that goes wrong ends this with a traceback.
"""

from __future__ import annotations

import sys
import sysconfig
import time
from collections import Counter
from pathlib import Path

from shardlift.check.engine import RuleSelection
from shardlift.cli.check_pool import run


def main(folders: list[str]) -> None:
    paths = sysconfig.get_paths()
    folders = folders or [paths["purelib"], paths["stdlib"]]
    files = sorted({str(path) for folder in folders for path in Path(folder).rglob("*.py")})
    start = time.process_time()
    reports = run(files, RuleSelection(), jobs=1)
    seconds = time.process_time() - start
    size = sum(Path(file).stat().st_size for file in files) / 1e6
    parsed = sum(report.parsed for report in reports)
    print(f"{len(files)} files, {size:.1f} MB, {seconds:.1f} s: {seconds / size:.4f} s/MB")
    print(f"{parsed} read in full; not Python 3: {sum(r.unreadable is not None for r in reports)}")
    codes = Counter(finding.code for report in reports for finding in report.findings)
    print("findings:", dict(sorted(codes.items())))


if __name__ == "__main__":
    main(sys.argv[1:])
