"""`python -m bench.projects`: see the package."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import bench.projects as package
from bench.projects.page import page
from bench.projects.row import measure

Rows = dict[str, dict[str, Any]]


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.projects", description=package.__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--out", type=Path, default=Path("projects"), help="where results go")
    parser.add_argument("--imports", action="store_true", help="import modules, too")
    parser.add_argument("--execute", action="store_true", help="run own tests and starters, too")
    parser.add_argument("--starters", type=Path, help="a folder of OWNER+NAME.py: see programs.py")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--again", action="store_true", help="measure rows that are there, too")
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    path = given.out / "rows.json"
    rows: Rows = json.loads(path.read_text()) if path.exists() else {}
    todo = {folder: lacks for folder in given.folders if (lacks := _lacks(given, folder, rows))}
    with ProcessPoolExecutor(given.jobs, multiprocessing.get_context("spawn")) as pool:
        futures = {
            pool.submit(
                measure, folder, "imports" in todo[folder], _starters(given, folder)
            ): folder
            for folder in sorted(todo, key=_size, reverse=True)
        }
        for number, future in enumerate(as_completed(futures), 1):
            row = future.result()
            old = rows.get(row["project"], {})  # what was executed before is kept
            rows[row["project"]] = row | {key: old[key] for key in old if row.get(key) is None}
            print(f"{number} of {len(todo)}: {_line(row)}", file=sys.stderr, flush=True)
            _write(path, json.dumps(dict(sorted(rows.items())), indent=1))
    _write(given.out / "index.html", page([rows[name] for name in sorted(rows)]))
    print(f"{len(rows)} projects: {given.out / 'index.html'}")


def _lacks(given: argparse.Namespace, folder: Path, rows: Rows) -> set[str]:
    """What is asked for and not in a project's row."""
    old = {} if given.again else rows.get(_name(folder), {})
    asked = {"sites"} | ({"imports"} if given.imports else set())
    asked |= {"programs"} if given.execute else set()
    return {key for key in asked if old.get(key) is None}


def _name(folder: Path) -> str:
    return folder.resolve().name.replace("+", "/")


def _starters(given: argparse.Namespace, folder: Path) -> list[Path] | None:
    """The starters of a project: `OWNER+NAME.py`, and more with a word before `.py`."""
    if not given.execute:
        return None
    found = given.starters.glob(f"{folder.resolve().name}*.py") if given.starters else ()
    return sorted(path.resolve() for path in found if path.stem.split(".")[0] == folder.name)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.py"))


def _line(row: dict[str, Any]) -> str:
    if row["failure"]:
        return f"{row['project']}: FAILED: {row['failure']}"
    return f"{row['project']}: {row['sites']} sites, {row['seconds']} s"


def _write(path: Path, text: str) -> None:
    new = path.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    os.replace(new, path)


if __name__ == "__main__":
    main(sys.argv[1:])
