"""What another JAX changes for shardlift: a nightly, a release candidate, a git checkout.

    python -m bench.next_jax --python VENV/bin/python [--conformance SCRIPT] [--save]

Asks the JAX of an interpreter (its environment needs JAX, NumPy, pytest and shardlift's own
requirements) four things, and prints what differs from the stored result of the newest JAX:

gradients     the numbers of docs/gradients.md, by body and way to map it
names         every name that `fix` and `migrate` can write: is it there, and with which parameters
statements    what the docs and the rules say about JAX, as tests: the guide's pages, `test_claims`
conformance   JAX's own pmap tests against `shardlift.pmap`, by the script that is given

Exits 0 if nothing differs, 1 if something does, 2 if JAX could not be asked.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
STORED = ROOT / "bench" / "results"
STATEMENTS = (
    "tests/docs/test_pages.py",
    "tests/check/test_claims.py",
    "tests/docs/test_gradients.py",
)
TIMEOUT = 3600.0
Answers = dict[str, Any]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.next_jax", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has the JAX")
    parser.add_argument("--conformance", type=Path, metavar="SCRIPT", help="jax_pmap_suite.py")
    parser.add_argument("--only", action="append", choices=ASKED, help="some of the four")
    parser.add_argument("--save", action="store_true", help="store the answers of this JAX")
    given = parser.parse_args(arguments)
    asked = {name: ask for name, ask in ASKED.items() if name in (given.only or ASKED)}
    answers: Answers = {"jax": _in_child(given.python, "version")}
    for name, ask in asked.items():
        print(f"asking for {name} ...", file=sys.stderr, flush=True)
        answers[name] = ask(given)
    before = newest_stored()
    lines = list(differences(before, answers))
    for line in lines or ["nothing differs"]:
        print(line)
    print(f"{_not_stored(before, answers)} answers are not in the stored result", file=sys.stderr)
    if given.save:
        path = STORED / f"next_jax-{answers['jax']}.json"
        stored = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps(stored | answers, indent=1, sort_keys=True) + "\n")
    return int(bool(lines))


def newest_stored() -> Answers:
    """The stored answers of the newest JAX that was asked."""

    def release(path: Path) -> list[int]:
        return [int(part) for part in path.stem.partition("-")[2].split(".") if part.isdigit()]

    paths = sorted(STORED.glob("next_jax-*.json"), key=release)
    return json.loads(paths[-1].read_text()) if paths else {}


def differences(before: Answers, now: Answers) -> Iterator[str]:
    """What changed, one line each. What only one of the two was asked is left out.

    >>> list(differences({"names": {"jax.P": "()"}}, {"names": {"jax.P": "missing"}}))
    ['names: jax.P: () → missing']
    """
    for part in (name for name in ASKED if name in before and name in now):
        old, new = before[part], now[part]
        for key in sorted(old.keys() & new.keys()):
            if old[key] != new[key]:
                yield f"{part}: {key}: {old[key]} → {new[key]}"


def _not_stored(before: Answers, now: Answers) -> int:
    """How many answers cannot be compared: a rule or a page is newer than the stored result."""
    return sum(len(now[part].keys() - before.get(part, {}).keys()) for part in ASKED if part in now)


def _in_child(python: str, what: str) -> Any:
    """The answer of a function of this module, computed by another interpreter."""
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "JAX_PLATFORMS": "cpu"}
    env["JAX_NUM_CPU_DEVICES"] = "8"
    command = [python, "-m", "bench.next_jax", "--answer", what]
    done = subprocess.run(
        command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    if done.returncode:
        print(f"{python} could not answer:\n{done.stderr[-2000:]}", file=sys.stderr)
        raise SystemExit(2)
    return json.loads(done.stdout.splitlines()[-1])


def version() -> str:
    import jax

    return jax.__version__


def gradients() -> dict[str, dict[str, list[float]]]:
    from bench.gradients import measure

    return measure(4)


def names() -> dict[str, str]:
    """Every dotted name of JAX that can be written, and its parameters."""
    return {name: _parameters(name) for name in sorted(written_names())}


def written_names() -> set[str]:
    """Names of JAX in the table of successors, and in the texts of helpers."""
    from shardlift.source.removed_names import TABLE

    successors = {row.successor for row in TABLE if row.successor.startswith("jax")}
    texts = (ROOT / "src/shardlift/rewrite/helper_texts").rglob("*.py")
    used = {name for path in texts for name in _dotted_names(ast.parse(path.read_text()))}
    return successors | {name for name in used if name.startswith("jax.")}


def _dotted_names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            text = ast.unparse(node)
            if text.replace(".", "").isidentifier():
                yield text
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _parameters(name: str) -> str:
    import enum
    import importlib
    import inspect
    import warnings

    parts = name.split(".")
    value: Any = None
    for length in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:length]))
            for attribute in parts[length:]:
                with warnings.catch_warnings(action="ignore"):  # a deprecated name is there
                    value = getattr(value, attribute)
            break
        except ImportError:
            continue
        except AttributeError:
            return "missing"
    try:
        parameters = list(inspect.signature(value).parameters)
    except (TypeError, ValueError):
        return "there"
    # What Python itself says of classes without parameters of their own, in one release or another.
    general = isinstance(value, enum.EnumMeta) or parameters == ["args", "kwargs"]
    return "there" if general else f"({', '.join(parameters)})"


def _statements(given: argparse.Namespace) -> dict[str, str]:
    """By test, what came of it."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "tests.xml"
        command = [given.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *STATEMENTS]
        env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        subprocess.run(
            [*command, f"--junit-xml={path}"],
            cwd=ROOT, env=env, capture_output=True, timeout=TIMEOUT, check=False,
        )  # fmt: skip
        tree = ElementTree.parse(path)
    results = {}
    for case in tree.iter("testcase"):
        worst = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
        results[f"{case.get('classname')}::{case.get('name')}"] = (worst or ["passed"])[0]
    return results


def _conformance(given: argparse.Namespace) -> dict[str, str]:
    """By suite, how many of JAX's tests pass."""
    if given.conformance is None:
        return {}
    results = {}
    for suite in ([], ["--old", "--quick"], ["--multiprocess"]):
        with tempfile.TemporaryDirectory() as place:
            path = Path(place) / "result.json"
            ours = ["--impl", "shardlift:pmap", "--device-put", "shardlift"]
            command = [sys.executable, str(given.conformance), "--python", given.python, *ours]
            done = subprocess.run(
                [*command, "--pythonpath", str(ROOT / "src"), "--out", str(path), *suite],
                capture_output=True, text=True, timeout=TIMEOUT, check=False,
            )  # fmt: skip
        last = (done.stdout.strip().splitlines() or ["no output"])[-1]
        results[" ".join(suite) or "new"] = last
    return results


Ask = Callable[[argparse.Namespace], Mapping[str, Any]]
ASKED: dict[str, Ask] = {
    "gradients": lambda given: _in_child(given.python, "gradients"),
    "names": lambda given: _in_child(given.python, "names"),
    "statements": _statements,
    "conformance": _conformance,
}

if __name__ == "__main__":
    if sys.argv[1:2] == ["--answer"]:
        print(
            json.dumps({"version": version, "gradients": gradients, "names": names}[sys.argv[2]]())
        )
    else:
        sys.exit(main(sys.argv[1:]))
