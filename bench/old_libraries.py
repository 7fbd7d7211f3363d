"""Which old releases of JAX's libraries import on today's JAX, plainly and under `run`?

    python -m bench.old_libraries [--only flax,optax] [--line 0.12.0.1] [--write] [--choose]

The releases are those of `shardlift/source/old_libraries.json`: one a half-year of 2021 to 2025.
Each is installed alone into a folder of its own (``--folder``, outside the repository), in front
of an environment with the newest release of everything else, and imported by a fresh process.
Prints a Markdown table; ``--write`` stores the results in the data file, ``--choose`` first looks
on PyPI for releases of the libraries that the file has not got. Needs uv, the interpreters of
LINES and the network; a failure is a row of the table. It takes an hour on two cores.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import datetime
import json
import os
import re
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "src/shardlift/source/old_libraries.json"
LINES = {"0.10.2": "3.11", "0.12.0.1": "3.13"}  # JAX -> Python
SECONDS = 120
# Library -> what is imported, as far as the release has it.
LIBRARIES = {
    "augmax": "augmax",
    "bayeux-ml": "bayeux",
    "bayex": "bayex",
    "blackjax": "blackjax",
    "brainpy": "brainpy",
    "brax": "brax brax.envs brax.training",
    "chex": "chex",
    "clu": "clu.parameter_overview clu.metrics clu.checkpoint",
    "coax": "coax",
    "coix": "coix",
    "diffrax": "diffrax",
    "distrax": "distrax",
    "dm-acme": "acme.jax.utils acme.jax.networks",
    "dm-haiku": "haiku",
    "dm-pix": "dm_pix",
    "dynamax": "dynamax.hidden_markov_model",
    "e3nn-jax": "e3nn_jax",
    "efax": "efax",
    "elegy": "elegy",
    "equinox": "equinox",
    "evojax": "evojax evojax.algo",
    "evosax": "evosax",
    "fedjax": "fedjax",
    "fjformer": "fjformer",
    "flax": "flax flax.linen flax.jax_utils flax.training.train_state "
    "flax.training.checkpoints flax.training.common_utils flax.training.dynamic_scale flax.optim",
    "flaxmodels": "flaxmodels",
    "flowjax": "flowjax.flows flowjax.distributions",
    "gpjax": "gpjax",
    "gymnax": "gymnax",
    "haliax": "haliax",
    "jax-cfd": "jax_cfd.base",
    "jax-cosmo": "jax_cosmo",
    "jax-md": "jax_md",
    "jax-resnet": "jax_resnet",
    "jaxkern": "jaxkern",
    "jaxlie": "jaxlie",
    "jaxline": "jaxline.utils jaxline.train",
    "jaxmarl": "jaxmarl",
    "jaxns": "jaxns",
    "jaxopt": "jaxopt",
    "jaxtyping": "jaxtyping",
    "jmp": "jmp",
    "jraph": "jraph",
    "jumanji": "jumanji",
    "kernex": "kernex",
    "kfac-jax": "kfac_jax",
    "lineax": "lineax",
    "mctx": "mctx",
    "netket": "netket",
    "neural-tangents": "neural_tangents neural_tangents.stax",
    "nnx": "nnx",
    "numpyro": "numpyro numpyro.infer numpyro.distributions numpyro.contrib.control_flow",
    "objax": "objax",
    "optax": "optax",
    "optimistix": "optimistix",
    "orbax": "orbax orbax.checkpoint",
    "orbax-checkpoint": "orbax.checkpoint",
    "oryx": "oryx",
    "ott-jax": "ott.geometry.pointcloud ott.solvers ott.core ott.tools",
    "penzai": "penzai penzai.pz",
    "pgx": "pgx",
    "pytreeclass": "pytreeclass",
    "qdax": "qdax qdax.core.map_elites",
    "rax": "rax",
    "rlax": "rlax",
    "sbx-rl": "sbx",
    "scico": "scico scico.numpy",
    "serket": "serket",
    "sympy2jax": "sympy2jax",
    "tensorflow-probability": "tensorflow_probability.substrates.jax",
    "tinygp": "tinygp",
    "trax": "trax trax.fastmath",
    "tree-math": "tree_math",
    "treex": "treex",
    "xminigrid": "xminigrid",
}
# What the releases need besides each other. Some are not there for every Python: one by one.
OTHERS = (
    "absl-py beartype dataclasses-json dm-env dm-tree dm-sonnet einops fastprogress flask "
    "cola-ml flask-cors gin-config gym gymnasium immutabledict jinja2 matplotlib mujoco "
    "nest_asyncio orjson overrides pandas plum-dispatch requests rich scikit-learn setuptools "
    "simple-pytree tensorboard tensorflow-cpu tensorflow-datasets tensorflow-hub treeo trimesh"
)
# Its part for JAX needs no TensorFlow, and of the newest TensorFlow no old release knows anything.
HIDDEN = {"tensorflow-probability": ["tensorflow", "tf_keras"]}

# What many releases import and does not import JAX itself.
HEAVY = (
    "absl.logging google.protobuf matplotlib.pyplot mujoco msgpack numpy.testing pandas rich "
    "scipy.optimize scipy.sparse scipy.special scipy.stats sklearn tensorflow tensorstore toolz "
    "tqdm.auto tree yaml unittest.mock"
)

# One process imports JAX, and each release in a fork of its own: the modules that are there. It
# prints one reply a line: where the import stopped, or nothing.
PROBE = """
import importlib, importlib.util, json, os, signal, sys, traceback, warnings
import jax, jax.numpy, jax.scipy
for name in sys.argv[1:]:  # no JAX in them: imported once for all
    try:
        importlib.import_module(name)
    except Exception:
        pass

def probe(folder, names, hidden, seconds):
    warnings.simplefilter("ignore")
    for name in [n for n in sys.modules if n.partition(".")[0] in hidden]:
        del sys.modules[name]
    sys.modules.update(dict.fromkeys(hidden))
    signal.alarm(seconds)
    sys.path.insert(0, folder)
    missing = 0
    try:
        for name in names:
            parent = name.rpartition(".")[0]
            if parent:
                importlib.import_module(parent)
            if importlib.util.find_spec(name) is None:
                missing += 1
            else:
                importlib.import_module(name)
        if missing == len(names):
            raise ModuleNotFoundError("nothing of it is there")
    except BaseException as error:
        at = traceback.extract_tb(error.__traceback__)[-1].filename
        return {"error": type(error).__name__, "text": str(error), "at": at}
    return {}

def forked(*job):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(1, 2)
        try:
            os.write(write, json.dumps(probe(*job)).encode()[:60000])
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        reply = pipe.read()
    os.waitpid(child, 0)
    return reply or json.dumps({"error": "Crash", "text": "it crashed or took too long", "at": ""})

for line in sys.stdin:
    print("reply", forked(*json.loads(line)), flush=True)
"""


@dataclass(frozen=True)
class Release:
    """One release of one library."""

    library: str
    version: str
    date: str

    @property
    def requirement(self) -> str:
        return f"{self.library}=={self.version}"


def dates(library: str) -> Iterator[Release]:
    """The releases that PyPI has."""
    with urllib.request.urlopen(f"https://pypi.org/pypi/{library}/json", timeout=60) as reply:
        releases: dict[str, list[dict[str, Any]]] = json.load(reply)["releases"]
    for version, files in releases.items():
        days = [file["upload_time"][:10] for file in files if not file["yanked"]]
        if days:
            yield Release(library, version, min(days))


def choose(library: str) -> Iterator[Release]:
    """The last release of each half-year."""
    last: dict[tuple[str, bool], tuple[str, str]] = {}
    for release in dates(library):
        version, date = release.version, release.date
        if re.search(r"[a-z]", version.replace(".post", "")):
            continue
        half = (date[:4], date[5:7] > "06")
        if "2021" <= date[:4] <= "2025" and last.get(half, ("",)) < (date,):
            last[half] = date, version
    for date, version in sorted(last.values()):
        yield Release(library, version, date)


class Workshop:
    """The folders in which releases and environments are installed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "releases").mkdir(parents=True, exist_ok=True)
        (folder / "probe.py").write_text(PROBE)

    def python(self, line: str) -> Path:
        """The interpreter with this JAX and the newest of everything else; made if need be."""
        python = self.folder / line / "bin/python"
        if python.exists():
            return python
        _uv("venv", "--python", LINES[line], str(self.folder / line))
        jax = [f"jax=={line}", f"jaxlib=={line}"]
        _uv("pip", "install", "-p", str(python), *jax, "-e", f"{ROOT}[jax]")
        for package in [*LIBRARIES, *OTHERS.split()]:
            done = _uv("pip", "install", "-p", str(python), *jax, package, check=False)
            if done.returncode:
                print(f"{package} is not there for JAX {line}", flush=True)
        return python

    def install(self, release: Release) -> str:
        """Install a release alone; the reason if that cannot be done."""
        target = self.folder / "releases" / release.requirement
        if target.exists():
            return ""
        python = ("-p", str(self.python(next(iter(LINES)))))
        arguments = ("pip", "install", *python, "--no-deps", "--target", str(target))
        done = _uv(*arguments, release.requirement, check=False)
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        return f"cannot be installed: {lines[-1][:100]}" if done.returncode else ""

    def imports(
        self, releases: Sequence[Release], line: str, *, run: bool
    ) -> Iterator[dict[str, Any]]:
        """How the import of each release ended."""
        launch = ["-m", "shardlift", "run", "--quiet"] if run else []
        probe = subprocess.Popen(
            [str(self.python(line)), *launch, str(self.folder / "probe.py"), *HEAVY.split()],
            env={**os.environ, "JAX_PLATFORMS": "cpu"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        with probe:
            assert probe.stdin
            assert probe.stdout
            for release in releases:
                folder = str(self.folder / "releases" / release.requirement)
                names, hidden = LIBRARIES[release.library].split(), HIDDEN.get(release.library, [])
                job = [folder, names, hidden, SECONDS]
                print(json.dumps(job), file=probe.stdin, flush=True)
                yield json.loads(probe.stdout.readline().removeprefix("reply "))
            probe.stdin.close()


def _uv(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["uv", *arguments], capture_output=True, text=True, timeout=1800, check=check
    )


def reason(reply: dict[str, Any]) -> tuple[str, str]:
    """How an import ended: "works", or whose fault it was ("jax", "other") and what was missing."""
    if "error" not in reply:
        return "works", ""
    text = reply["text"].splitlines()[0] if reply["text"] else reply["error"]
    for pattern in (
        r"cannot import name '(?P<name>\w+)' from '(?P<module>jax[\w.]*)'",
        r"module '(?P<module>jax[\w.]*)' has no attribute '(?P<name>\w+)'",
        r"No module named '(?P<module>jax(?:lib)?(?:\.[\w.]+))'",
        r"(?P<module>jax(?:lib)?(?:\.\w+)+) (?:was|is|has been) (?:removed|deprecated)",
        r"'(?P<module>Config)' object has no attribute '(?P<name>\w+)'",
    ):
        if match := re.search(pattern, text):
            parts = match.groupdict()
            module = "jax.config" if parts["module"] == "Config" else parts["module"]
            return "jax", f"{module}.{parts['name']}" if parts.get("name") else module
    if re.search(r"/(site-packages/(jax|jaxlib)|src/shardlift)/", reply["at"]):
        return "jax", f"{reply['error']}: {text}"[:120]
    return "other", f"{reply['error']}: {text}"[:120]


Results = dict[str, dict[str, str]]


def measure(
    shop: Workshop, releases: Sequence[Release], lines: Sequence[str], jobs: int
) -> list[Results]:
    """For each release: line -> how it imports plainly and under `run`, and why not."""
    refused = [shop.install(release) for release in releases]

    def ends(line: str, run: bool) -> list[tuple[str, str]]:
        said = []
        for release, reply in zip(releases, shop.imports(releases, line, run=run), strict=True):
            said.append(reason(reply))
            print(release.requirement, line, "run" if run else "plain", *said[-1], flush=True)
        return said

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        pairs = {
            (line, run): pool.submit(ends, line, run) for line in lines for run in (False, True)
        }
    results: list[Results] = []
    for k, why in enumerate(refused):
        row = {}
        for line in lines:
            plain, run = (pairs[line, run].result()[k] for run in (False, True))
            row[line] = {"plain": plain[0], "run": run[0], "reason": run[1] or plain[1]}
            if why:
                row[line] = {"plain": "other", "run": "other", "reason": why}
        results.append(row)
    return results


# ---- the data file and the tables


def load() -> dict[str, Any]:
    """The data file."""
    content: dict[str, Any] = json.loads(DATA.read_text())
    return content


def save(content: dict[str, Any]) -> None:
    """Write the data file, one line a release."""
    rows = content["releases"]
    rows.sort(key=lambda row: (row["library"], row["date"]))
    head = json.dumps({**content, "releases": []}, indent=1)
    body = ",\n".join("  " + json.dumps(row) for row in rows)
    DATA.write_text(head.replace('"releases": []', f'"releases": [\n{body}\n ]') + "\n")


def table(rows: Sequence[dict[str, Any]], lines: Sequence[str]) -> Iterator[str]:
    """Markdown: one row a release that does not import plainly everywhere."""
    yield "| release | date | " + " | ".join(f"JAX {line}" for line in lines) + " |"
    yield "|---" * (2 + len(lines)) + "|"
    for row in rows:
        cells = [_cell(row["results"].get(line)) for line in lines]
        if any(cell != "imports" for cell in cells):
            cells = [f"{row['library']} {row['version']}", row["date"], *cells]
            yield "| " + " | ".join(cells) + " |"


def _cell(result: dict[str, str] | None) -> str:
    if result is None:
        return "not tried"
    words = {
        ("works", "works"): "imports",
        ("jax", "works"): "under `run`",
        ("jax", "jax"): "no",
    }
    word = words.get((result["plain"], result["run"]), "not only JAX")
    if word == "imports" or not result["reason"]:
        return word
    return f"{word}: `{result['reason'].replace('|', '/')}`"


def summary(rows: Sequence[dict[str, Any]], line: str) -> str:
    """How many releases import, and of those that only JAX breaks how many under `run`."""
    results = [row["results"][line] for row in rows if line in row["results"]]
    ends = [(r["plain"], r["run"]) for r in results]
    mended, broken = ends.count(("jax", "works")), ends.count(("jax", "jax"))
    libraries = len({row["library"] for row in rows if line in row["results"]})
    return (
        f"JAX {line}: {len(ends)} releases of {libraries} libraries: "
        f"{ends.count(('works', 'works'))} import plainly; of {mended + broken} that only JAX "
        f"breaks {mended} import under `run`; {sum('other' in end for end in ends)} do not import "
        f"for another reason; {ends.count(('works', 'jax'))} import plainly only."
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and store if asked to; 1 if `run` breaks what imports plainly."""
    options = parse(arguments)
    content = load()
    rows: list[dict[str, Any]] = content["releases"]
    known = {(row["library"], row["version"]) for row in rows}
    chosen = [r for library in LIBRARIES for r in choose(library)] if options.choose else []
    named = {requirement.partition("==")[0] for requirement in options.only if "==" in requirement}
    chosen += [r for library in named for r in dates(library) if r.requirement in options.only]
    rows += [
        {"library": r.library, "version": r.version, "date": r.date, "results": {}}
        for r in chosen
        if (r.library, r.version) not in known
    ]
    wanted = [row for row in rows if _is_wanted(row, options)]
    shop = Workshop(options.folder)
    for line in options.line:
        shop.python(line)
    releases = [Release(row["library"], row["version"], row["date"]) for row in wanted]
    for row, results in zip(
        wanted, measure(shop, releases, options.line, options.jobs), strict=True
    ):
        row["results"].update(results)
    if options.write:
        content["date"] = datetime.date.today().isoformat()
        save(content)
    for line in options.line:
        print(summary(wanted, line))
    print(json.dumps(wanted, indent=1) if options.json else "\n".join(table(wanted, options.line)))
    broken = ("works", "jax")
    return int(any((r["plain"], r["run"]) == broken for w in wanted for r in w["results"].values()))


def _is_wanted(row: dict[str, Any], options: argparse.Namespace) -> bool:
    if options.only and not {row["library"], f"{row['library']}=={row['version']}"} & options.only:
        return False
    ends = row["results"].values()
    return not options.failed or not ends or any(end["run"] == "jax" for end in ends)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.old_libraries", description=__doc__)
    folder = Path(tempfile.gettempdir(), "old_libraries")
    add = parser.add_argument
    add("--folder", type=Path, default=folder, help="where to install; default %(default)s")
    add("--only", type=lambda text: set(text.split(",")), default=set(), help="flax,optax==0.1.2")
    add("--line", action="append", choices=list(LINES), help="a release of JAX; default all")
    add(
        "--failed", action="store_true", help="only releases that JAX breaks under run, or new ones"
    )
    add("--jobs", type=int, default=2)
    add("--json", action="store_true", help="print JSON instead of Markdown")
    add("--choose", action="store_true", help="add releases that PyPI has and the file has not")
    add("--write", action="store_true", help="store the results in the data file")
    options = parser.parse_args(arguments)
    options.line = options.line or list(LINES)
    return options


if __name__ == "__main__":
    raise SystemExit(main())
