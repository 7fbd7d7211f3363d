"""Do the tests that an old library passed with the JAX of its day pass under `run` today?

    python -m bench.old_libraries_tests [flax dm-haiku ...] [--clones FOLDER]

`old_libraries_tests.toml` beside this file names the libraries, a tag of each and the test files
that touch pmap, replication, devices, random numbers or checkpoints. The library at its tag stands
in front of two environments: JAX 0.4.13 and the releases of August 2023, and the newest JAX and
the newest of everything else (that of `bench.old_libraries`), there with `shardlift run`. Prints a
Markdown table, and each test that passed then and does not now, with the error. Needs uv, git, the
network, or clones of the repositories (``FOLDER/owner+name/repo`` or ``FOLDER/name``).
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import tempfile
import tomllib
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.old_libraries import Workshop, _uv

DATA = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
NEWEST = "0.12.0.1"
THEN = "0.4.13"  # the oldest jaxlib that PyPI still has
SECONDS = 1500


def environments(folder: Path) -> tuple[Path, Path]:
    """The interpreters of then and of today, with pytest."""
    today = Workshop(folder).python(NEWEST)
    _uv("pip", "install", "-p", str(today), f"jax=={NEWEST}", *DATA["tools"])
    then = folder / THEN / "bin/python"
    if not then.exists():
        _uv("venv", "--python", "3.11", str(folder / THEN))
        dated = ["--exclude-newer", DATA["date"], "--exclude-newer-package", "jaxlib=2026-01-01"]
        libraries = (*DATA["library"], *DATA["others"], *DATA["tools"])
        jax = (f"jax=={THEN}", f"jaxlib=={THEN}")
        _uv("pip", "install", "-p", str(then), *dated, *jax, *libraries)
    return then, today


def check_out(library: str, folder: Path, clones: Path) -> Path:
    """The folder with the library's source at its tag."""
    row = DATA["library"][library]
    target = folder / "tags" / f"{library}-{row['tag']}"
    if not target.exists():
        owner, _, name = row["repository"].partition("/")
        clone = clones / f"{owner}+{name}" / "repo"
        if not clone.exists():
            clone = clones / name
        if not clone.exists():
            subprocess.run(
                ["git", "clone", "-q", f"https://github.com/{owner}/{name}", clone], check=True
            )
        archive = subprocess.run(
            ["git", "-C", clone, "archive", row["tag"], *row["paths"].split()],
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
        target.mkdir(parents=True)
        subprocess.run(["tar", "x", "-C", target], input=archive, check=True)
        for path, text in row.get("written", {}).items():  # by its build
            (target / path).write_text(text)
    return target


def outcomes(library: str, source: Path, python: Path, *, run: bool) -> dict[str, str]:
    """Test -> "" if it passed, or the first line of its error; those of then are kept."""
    row = DATA["library"][library]
    report = source.parent / f"{library}-{'run' if run else 'then'}.xml"
    if report.exists() and not run:
        return _read(report)
    launch = ["-m", "shardlift", "run", "--quiet", "--written-for", THEN] if run else []
    options = ["-q", "-n", "0", "--timeout", "300", "-o", "addopts=", "-p", "no:cacheprovider"]
    command = [python, *launch, "-m", "pytest", *options, f"--junitxml={report}"]
    command += [*row.get("options", []), *row["tests"].split()]
    report.unlink(missing_ok=True)
    environment = {
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": os.pathsep.join([str(source), os.environ.get("PYTHONPATH", "")]),
        "PYTHONWARNINGS": "ignore",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={row.get('devices', 1)}",
    }
    with report.with_suffix(".log").open("w") as log:
        subprocess.run(
            command,
            cwd=source,
            env=os.environ | environment,
            stdout=log,
            stderr=log,
            timeout=SECONDS,
            check=False,
        )
    return _read(report)


def _read(report: Path) -> dict[str, str]:
    results = {}
    for case in ElementTree.parse(report).iter("testcase"):
        if case.find("skipped") is not None:
            continue
        failed = [part for part in case if part.tag in ("failure", "error")]
        # NumPy 2 writes np.float64(0.5) for 0.5, also into the names of tests.
        name = re.sub(r"np\.\w+\(([^()]*)\)", r"\1", f"{case.get('classname')}.{case.get('name')}")
        message = failed[0].get("message", "").strip() if failed else ""
        results[name] = (message.splitlines() or ["failed"])[0][:160] if failed else ""
    return results


def measure(library: str, folder: Path, clones: Path) -> dict[str, Any]:
    """What passed then, and what of it fails now."""
    source = check_out(library, folder, clones)
    python, today = environments(folder)
    then = outcomes(library, source, python, run=False)
    now = outcomes(library, source, today, run=True)
    passed = [name for name, error in then.items() if not error]
    failing = {name: now.get(name, "not collected") for name in passed}
    return {
        "tests": len(then),
        "passed": len(passed),
        "failing": {name: error for name, error in failing.items() if error},
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 if less than 95 % pass."""
    parser = argparse.ArgumentParser(prog="python -m bench.old_libraries_tests")
    temporary = Path(tempfile.gettempdir(), "old_libraries")
    parser.add_argument("libraries", nargs="*", default=list(DATA["library"]))
    parser.add_argument("--folder", type=Path, default=temporary)
    parser.add_argument("--clones", type=Path, default=temporary / "clones")
    options = parser.parse_args(arguments)
    print(
        "| library | tag | tests | passed then | of these pass under `run` |\n|---|---|---|---|---|"
    )
    passed = failed = 0
    for library in options.libraries:
        result = measure(library, options.folder, options.clones)
        still = result["passed"] - len(result["failing"])
        cells = [library, DATA["library"][library]["tag"], result["tests"], result["passed"], still]
        print("|", " | ".join(map(str, cells)), "|", flush=True)
        for name, error in result["failing"].items():
            print(f"<!-- {name}: {error} -->", flush=True)
        passed, failed = passed + result["passed"], failed + len(result["failing"])
    print(f"{passed - failed} of {passed} that passed then pass under `run`.")
    return int(failed > 0.05 * passed)


if __name__ == "__main__":
    raise SystemExit(main())
