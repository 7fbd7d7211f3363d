"""`shardlift check` beside ruff and a minimal LibCST tool on the same files: seconds a megabyte.

    python -m bench.check_speed [FOLDER]...

Without a folder, the site-packages of this interpreter. One process each; the Python tools are
timed inside this process (without starting Python), ruff as the program that it is. Files are
split into those that mention pmap and those that do not; each group is timed three times and the
best is kept. Then one file with very many sites, in three lengths: the time is linear if seconds a
megabyte stay.
"""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.editor import text_of
from shardlift.check.engine import RuleSelection
from shardlift.cli.check_pool import run

MOST = 12_000_000  # bytes of a group: enough to be steady, few enough for LibCST
LEAST_LIBCST = 300_000  # LibCST is slow: it gets this much of each group
ROUNDS = 3
LENGTHS = (3_000, 12_000, 48_000)  # lines


def main(folders: list[str]) -> None:
    folders = folders or [sysconfig.get_paths()["purelib"]]
    files = [str(path) for folder in folders for path in sorted(Path(folder).rglob("*.py"))]
    mention: list[str] = []
    silent: list[str] = []
    for path in files:
        if path.endswith(".py"):
            content = Path(path).read_bytes()
            (mention if b"pmap" in content else silent).append(path)
    print(f"{len(mention)} files mention pmap, {len(silent)} do not")
    report("mention pmap", mention, target=0.5)
    report("do not mention pmap", silent, target=0.02)
    print("\none file, a pmap site per 22 lines:")
    with tempfile.TemporaryDirectory() as folder:
        for lines in LENGTHS:
            path = Path(folder, "train.py")
            path.write_text(text_of(lines))
            paths = [str(path)]
            ours = seconds_per_mb(lambda: run(paths, RuleSelection(), jobs=1), paths, rounds=1)  # noqa: B023
            print(f"  {megabytes(paths):5.2f} MB {ours:8.4f} s/MB")


def report(title: str, paths: list[str], target: float) -> None:
    paths = up_to(paths, MOST)
    if not paths:
        print(f"\n{title}: no such file")
        return
    few = up_to(paths, LEAST_LIBCST)
    ours = seconds_per_mb(lambda: run(paths, RuleSelection(), jobs=1), paths)
    print(f"\n{title}: {len(paths)} files, {megabytes(paths):.2f} MB, s/MB, one process")
    verdict = "met" if ours <= target else "MISSED"
    print(f"  shardlift check  {ours:8.4f}   target {target}: {verdict}")
    compare("ast.parse alone", ours, seconds_per_mb(lambda: run_ast(paths), paths))
    if ruff := shutil.which("ruff", path=str(Path(sys.executable).parent)) or shutil.which("ruff"):
        ruffs = seconds_per_mb(lambda: run_ruff(ruff, paths), paths, clock=time.perf_counter)
        compare("ruff check", ours, ruffs)
    compare("LibCST visitor", ours, seconds_per_mb(lambda: run_libcst(few), few, rounds=1))


def compare(name: str, ours: float, theirs: float) -> None:
    print(f"  {name:<16} {theirs:8.4f}   {theirs / ours:.1f} times ours")


def run_ruff(ruff: str, paths: list[str]) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as listed:
        listed.write("\n".join(paths))
        listed.flush()
        command = [ruff, "check", "--isolated", "--no-cache", "--quiet", "--exit-zero"]
        environment = {"RAYON_NUM_THREADS": "1", "PATH": ""}
        subprocess.run(
            [*command, "--select", "F,E4,E7,E9", f"@{listed.name}"],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )


def run_ast(paths: list[str]) -> None:
    """The floor for any tool on the standard library, and a measure of the machine's mood."""
    for path in paths:
        try:
            ast.parse(Path(path).read_bytes())
        except (SyntaxError, ValueError):
            continue


def run_libcst(paths: list[str]) -> None:
    """The least that a LibCST tool can do: parse, resolve names, visit calls."""
    import libcst
    from libcst.metadata import MetadataWrapper, QualifiedNameProvider

    class Visitor(libcst.CSTVisitor):
        METADATA_DEPENDENCIES = (QualifiedNameProvider,)

        def visit_Call(self, node: libcst.Call) -> None:  # noqa: N802
            self.get_metadata(QualifiedNameProvider, node.func, set())

    for path in paths:
        try:
            module = libcst.parse_module(Path(path).read_bytes())
        except libcst.ParserSyntaxError:
            continue
        MetadataWrapper(module, unsafe_skip_copy=True).visit(Visitor())


def seconds_per_mb(
    work: Callable[[], object],
    paths: list[str],
    rounds: int = ROUNDS,
    clock: Callable[[], float] = time.process_time,
) -> float:
    """In processor time; another program's is on the clock."""
    best = float("inf")
    for _ in range(rounds):
        start = clock()
        work()
        best = min(best, clock() - start)
    return best / megabytes(paths)


def megabytes(paths: list[str]) -> float:
    return sum(Path(path).stat().st_size for path in paths) / 1e6


def up_to(paths: list[str], most: int) -> list[str]:
    """Files spread over the list, up to a total size."""
    step = max(1, int(megabytes(paths) * 1e6 // most) + 1) if paths else 1
    return paths[::step]


if __name__ == "__main__":
    main(sys.argv[1:])
