"""How many planted mistakes the tests of a package notice.

    python -m bench.mutation check rewrite/device_axis --samples 12 --seed 1
    python -m bench.mutation source --tests tests/source tests/check --slow
    python -m bench.mutation check --then tests

Each sample changes one place of one module of the package: a comparison is turned round, a
condition negated, a statement deleted, an element of a tuple or set dropped, a member of an enum
exchanged for another one. Then the tests run, in a copy of the project, until the first failure:
those of the package's folder, and the examples in the docstrings of the module; with `--then`,
those of other folders, too, the slow ones included (tests/README.md says what is tested where).
A mutant that no test notices is printed with its place: write the test, or see that the mutant
means the same as the original. Tests that fail without a mutant are left out.
"""

from __future__ import annotations

import argparse
import ast
import copy
import functools
import os
import queue
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = Path("src/shardlift")
OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
# Statements whose absence no test should have to notice.
KEPT = (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Pass, ast.Assert, ast.Raise)


@dataclass(frozen=True)
class Mutant:
    """A module with one mistake in it."""

    path: Path  # of the module, from the root of the project
    line: int
    what: str
    text: str


def mutants(path: Path, text: str) -> list[Callable[[], Mutant]]:
    """Every mutant of a module, as a function that makes it."""
    tree = ast.parse(text)
    members = _enum_members(tree)

    def make(number: int, what: str, change: Mutation) -> Mutant:
        mutated = copy.deepcopy(tree)
        node = next(n for k, n in enumerate(ast.walk(mutated)) if k == number)
        change(node)
        mutated_text = ast.unparse(ast.fix_missing_locations(mutated))
        return Mutant(path, getattr(node, "lineno", 0), what, mutated_text)

    return [
        functools.partial(make, number, what, change)
        for number, node in enumerate(ast.walk(tree))
        for what, change in _changes(node, members)
    ]


Mutation = Callable[[ast.AST], None]


def _changes(node: ast.AST, members: dict[str, set[str]]) -> Iterator[tuple[str, Mutation]]:
    """What can be done to a node, in words and as a function of the same node in a copy."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in OPPOSITE:
        yield f"`{ast.unparse(node)}` turned round", _turn_round
    if isinstance(node, ast.If | ast.IfExp | ast.While) and not isinstance(node.test, ast.Compare):
        yield f"`{ast.unparse(node.test)}` negated", _negate
    if isinstance(node, ast.Call | ast.Return | ast.Assign | ast.Compare):
        for position, part in enumerate(ast.iter_child_nodes(node)):
            if isinstance(part, ast.Tuple | ast.Set) and len(part.elts) > 1 and _is_read(part):
                yield f"`{ast.unparse(part)}` without its last element", _drop_element(position)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        others = sorted(members.get(node.value.id, set()) - {node.attr})
        if others and node.attr in members[node.value.id]:
            yield f"`{ast.unparse(node)}` exchanged for {others[0]}", _exchange(others[0])
    body = getattr(node, "body", None)
    if isinstance(node, ast.FunctionDef | ast.If | ast.For | ast.With) and isinstance(body, list):
        for position, statement in enumerate(body):
            if not isinstance(statement, KEPT) and not _changes_nothing(statement):
                yield f"`{_brief(statement)}` deleted", _delete(position)


def _turn_round(node: ast.AST) -> None:
    assert isinstance(node, ast.Compare)
    node.ops[0] = OPPOSITE[type(node.ops[0])]()


def _negate(node: ast.AST) -> None:
    assert isinstance(node, ast.If | ast.IfExp | ast.While)
    node.test = ast.UnaryOp(ast.Not(), node.test)


def _drop_element(position: int) -> Mutation:
    def change(node: ast.AST) -> None:
        part = list(ast.iter_child_nodes(node))[position]
        assert isinstance(part, ast.Tuple | ast.Set)
        part.elts.pop()

    return change


def _is_read(node: ast.Tuple | ast.Set) -> bool:
    return isinstance(node, ast.Set) or isinstance(node.ctx, ast.Load)


def _exchange(member: str) -> Mutation:
    def change(node: ast.AST) -> None:
        assert isinstance(node, ast.Attribute)
        node.attr = member

    return change


def _delete(position: int) -> Mutation:
    def change(node: ast.AST) -> None:
        node.body[position] = ast.Pass()  # type: ignore[attr-defined]

    return change


def _changes_nothing(statement: ast.stmt) -> bool:
    """Whether it is a docstring, or `return None`: mostly what a function does anyway."""
    if isinstance(statement, ast.Return):
        return isinstance(statement.value, ast.Constant) and statement.value.value is None
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _brief(statement: ast.stmt) -> str:
    line = ast.unparse(statement).splitlines()[0]
    return line if len(line) <= 70 else f"{line[:67]}..."


def _enum_members(tree: ast.Module) -> dict[str, set[str]]:
    """The members that a module names of each enum: `Name.MEMBER`."""
    members: dict[str, set[str]] = {}
    for node in (n for n in ast.walk(tree) if isinstance(n, ast.Attribute)):
        owner = node.value
        if isinstance(owner, ast.Name) and owner.id[:1].isupper() and node.attr.isupper():
            members.setdefault(owner.id, set()).add(node.attr)
    return members


def sample(package: str, count: int, seed: int) -> list[Mutant]:
    """Mutants of a package, or of one module: at random, the same for the same seed."""
    folder = ROOT / PACKAGE / package
    files = [folder.with_suffix(".py")] if folder.with_suffix(".py").exists() else []
    files += sorted(folder.rglob("*.py"))
    files = [f for f in files if "helper_texts" not in f.parts]
    chosen = random.Random(f"{seed} {package}")
    lengths = [len(file.read_text().splitlines()) for file in files]
    picked: list[Mutant] = []
    while len(picked) < count:
        [file] = chosen.choices(files, lengths)
        candidates = mutants(file.relative_to(ROOT), file.read_text())
        if candidates:
            mutant = chosen.choice(candidates)()
            if mutant not in picked:
                picked.append(mutant)
    return picked


def run_tests(
    project: Path, tests: list[str], options: list[str], seconds: float
) -> tuple[bool, str]:
    """Whether all tests pass in a copy of the project within a time, and what is printed."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    path = [str(project / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    try:
        done = subprocess.run(
            [*command, *tests], cwd=project, env=environment, capture_output=True, timeout=seconds
        )
        return done.returncode == 0, done.stdout.decode(errors="replace")
    except subprocess.TimeoutExpired:
        return False, ""


def is_noticed(
    mutant: Mutant, project: Path, tests: list[str], options: list[str], seconds: float
) -> bool:
    """Whether a test fails, or hangs, with the mutant in place."""
    tests = [*tests_of_module(mutant.path), *examples_in(mutant.path), *tests]
    module = project / mutant.path
    before = module.read_text()
    module.write_text(mutant.text)
    try:
        return not run_tests(project, tests, ["-x", *options], seconds)[0]
    finally:
        module.write_text(before)


def broken_tests(project: Path, tests: list[str], options: list[str]) -> list[str]:
    """Options that leave out the tests that fail on this machine without any mutant."""
    pass_all, printed = run_tests(project, tests, ["-rfE", *options], 900)
    names = re.findall(r"^(?:FAILED|ERROR) (\S+(?:\[.*?\])?)(?: - |$)", printed, re.MULTILINE)
    if not pass_all and not names:
        raise SystemExit(f"the tests do not run here:\n{printed[-2000:]}")
    return [f"--deselect={name}" for name in sorted(set(names))]


def tests_of_module(module: Path) -> list[str]:
    """The file of tests of a module: it is the quickest to notice a mutant."""
    inside = module.relative_to(PACKAGE)
    folder = Path("tests", *(part.removeprefix("_") for part in inside.parent.parts))
    file = folder / f"test_{inside.name}"
    return [str(file)] if (ROOT / file).exists() else []


def examples_in(module: Path) -> list[str]:
    """The test of the examples in a module's docstrings, if it has any."""
    name = ".".join(module.relative_to(PACKAGE.parent).with_suffix("").parts)
    test = f"tests/test_package.py::test_examples_in_docstrings[{name.removesuffix('.__init__')}]"
    return [test] if ">>> " in (ROOT / module).read_text() else []


def tests_of(package: str) -> list[str]:
    """The folder of tests of a package, or the nearest one above it."""
    parts = Path(package.removeprefix("_")).parts
    for length in range(len(parts), 0, -1):
        folder = Path("tests", *parts[:length])
        if (ROOT / folder).is_dir():
            return [str(folder)]
    return ["tests"]


def main() -> int:
    """Print the survivors and a count for each package."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("packages", nargs="+", help="below src/shardlift, e.g. rewrite/device_axis")
    parser.add_argument("--samples", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tests", nargs="+", help="default: the folder of the same name")
    parser.add_argument("--then", nargs="+", default=[], help="tests for what those leave")
    parser.add_argument("--slow", action="store_true", help="run the slow tests, too")
    parser.add_argument("-n", "--workers", default="2", help="of pytest, for each mutant")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at the same time")
    parser.add_argument("--seconds", type=float, default=900, help="a mutant may take, or hangs")
    parser.add_argument("--minutes", type=float, default=600, help="start none after this time")
    asked = parser.parse_args()
    quick = [] if asked.slow else ["-m", "not slow"]
    tests = {package: asked.tests or tests_of(package) for package in asked.packages}
    end = time.monotonic() + 60 * asked.minutes
    noticed, elsewhere, tried = Counter[str](), Counter[str](), Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        copies: queue.SimpleQueue[Path] = queue.SimpleQueue()
        skipped = shutil.ignore_patterns(".venv*", ".git", ".mypy_cache", "__pycache__", "_build")
        for number in range(asked.jobs):
            project = Path(folder) / f"project{number}"
            shutil.copytree(ROOT, project, ignore=skipped)
            copies.put(project)
        together = ["-n", str(asked.jobs)]
        broken = broken_tests(project, sorted({*chain(*tests.values())}), [*together, *quick])
        broken += broken_tests(project, asked.then, together) if asked.then else []
        print(f"left out, since they fail without a mutant: {len(broken)}", *broken, flush=True)

        def check(package: str, mutant: Mutant) -> bool | None:
            """Whether the mutant is noticed; None if there was no time left to see."""
            project = copies.get()
            stages = ((tests[package], quick, noticed), (asked.then, [], elsewhere))
            try:
                for of, which, counted in stages[: 2 if asked.then else 1]:
                    if time.monotonic() > end:
                        return None
                    options = ["-n", asked.workers, *which, *broken]
                    if is_noticed(mutant, project, of, options, asked.seconds):
                        counted[package] += 1
                        return True
                return False
            finally:
                copies.put(project)

        samples = {p: sample(p, asked.samples, asked.seed) for p in asked.packages}
        in_turn = [(p, samples[p][k]) for k in range(asked.samples) for p in asked.packages]
        with ThreadPoolExecutor(asked.jobs) as pool:
            checked = {pool.submit(check, p, mutant): (p, mutant) for p, mutant in in_turn}
            for future in as_completed(checked):
                package, mutant = checked[future]
                if (result := future.result()) is None:
                    continue
                tried[package] += 1
                if not result:
                    print(f"{mutant.path}:{mutant.line}: {mutant.what}", flush=True)
    for package in asked.packages:
        by = f"{noticed[package]} of {tried[package]} noticed by {' '.join(tests[package])}"
        then = f", {elsewhere[package]} more by {' '.join(asked.then)}" if asked.then else ""
        print(f"{package}: {by}{then}")
    return 1 if noticed + elsewhere != tried else 0


if __name__ == "__main__":
    sys.exit(main())
