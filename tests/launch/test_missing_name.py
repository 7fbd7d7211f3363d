"""A program that stopped at something which JAX no longer has is told what, and what to do."""

import sys
from pathlib import Path

import jax
import pytest

import shardlift
from shardlift.launch.missing_name import find_missing_name
from shardlift.source import old_libraries
from tests import children

STOPPED = "the program stopped: "
# What a program does under `run`, and what it is told.
PROGRAMS = {
    "from jax.experimental.maps import xmap; xmap(abs)": (
        "jax.experimental.maps.xmap was removed in JAX 0.4.31: see jax.shard_map"
    ),
    "import flax.deprecated": "flax.deprecated was removed in flax 0.4: see flax.linen",
    **dict.fromkeys(
        [
            "import jax; jax.mask(abs)",
            "import jax\ntry: jax.mask(abs)\nexcept Exception as error: raise KeyError from error",
        ],
        "jax.mask was removed in JAX 0.3.16: nothing replaces it: the experiment ended",
    ),
}
# Errors that have nothing to do with removed names: the traceback says it all.
OTHERS = [
    "import nothing",
    "import jax; jax.never_was",
    "raise ImportError('jax.mask')",
    "raise AttributeError('jax.mask', obj=None)",
    "raise ModuleNotFoundError(name='jax.numpy')",  # while it is being imported
    "jax",
    "raise TypeError('f() takes 2')",
    """raise ValueError("module 'jax' has no attribute 'mask'")""",
]


def error_of(program: str) -> BaseException:
    with shardlift.legacy(), pytest.raises(Exception) as raised:  # noqa: PT011
        exec(compile(program, "train.py", "exec"), {})
    return raised.value


def lines_of(error: BaseException, *, patch: bool = True) -> list[str]:
    missing = find_missing_name(error)
    return [] if missing is None else list(missing.lines(patch=patch))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_is_told_what_stopped_it(program: str):
    if "flax" in program:
        pytest.importorskip("flax")
    assert lines_of(error_of(program)) == [STOPPED + PROGRAMS[program]]


@pytest.mark.parametrize("program", OTHERS)
def test_another_error_is_left_alone(program: str):
    assert lines_of(error_of(program)) == []


def test_what_would_be_restored():
    for program in ("jax.tree_map", "from jax import tree_map"):
        with pytest.raises((AttributeError, ImportError)) as raised:
            exec(program, {"jax": jax})
        (line,) = lines_of(raised.value, patch=False)
        assert line.endswith("use jax.tree.map; without --no-patch it is restored")
        (line,) = lines_of(raised.value)
        assert line.endswith("use jax.tree.map; `shardlift fix` rewrites it")


def test_without_jax():
    error = ModuleNotFoundError("No module named 'jax'", name="jax")
    (line,) = lines_of(error)
    assert line == 'JAX is not installed in this environment: pip install "shardlift[jax]"'


TABLE = {
    "date": "2026-11-18",
    "releases": [
        {
            "library": "oldlib",
            "version": version,
            "date": "2023-05-01",
            "results": {"0.10.2": {"plain": plain, "run": "works", "reason": ""}},
        }
        for version, plain in [
            ("0.6.3", "jax"),
            ("0.6.11", "jax"),
            ("0.7", "works"),
            ("0.8", "works"),
        ]
    ],
}


def install_old_library(folder: Path) -> Path:
    """An installed library that needs a name that JAX has removed."""
    site = folder / "site-packages"
    (site / "oldlib").mkdir(parents=True)
    (site / "oldlib/__init__.py").write_text("import jax\njax.config.define_what_never_was\n")
    info = site / "oldlib-0.6.11.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: oldlib\nVersion: 0.6.11\n")
    (info / "top_level.txt").write_text("oldlib\n")
    return site


def test_a_library_is_named_with_the_release_that_works(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(install_old_library(tmp_path))
    monkeypatch.setattr(old_libraries, "_table", lambda: TABLE)
    error = error_of("import oldlib")
    version = jax.__version__
    assert lines_of(error) == [
        f"oldlib 0.6.11 needs jax.config.define_what_never_was; JAX {version} does not have it",
        f"oldlib 0.7 is the oldest release that works with JAX {version} (tested 2026-11-18): "
        "pip install 'oldlib>=0.7'",
    ]
    monkeypatch.setattr(old_libraries, "_table", lambda: {"releases": []})
    assert lines_of(error)[1:] == ["a newer oldlib may work: pip install -U oldlib"]


@pytest.mark.slow
def test_run_prints_the_traceback_of_python_and_what_stopped_it(tmp_path):
    program = tmp_path / "train.py"
    program.write_text("from jax.experimental import maps\ndef main():\n    maps.xmap(0)\nmain()\n")
    env = children.plain_environment(JAX_PLATFORMS="cpu")
    run = [sys.executable, "-m", "shardlift", "run"]
    done = children.run([*run, "--record", str(tmp_path / "run.json"), str(program)], env=env)
    traceback, *rest = done.stderr.split("shardlift: ")
    frames = [line.strip() for line in traceback.splitlines() if "File" in line]
    assert frames == [
        f'File "{program}", line 4, in <module>',
        f'File "{program}", line 3, in main',
    ]
    assert rest[0].startswith("the program stopped: jax.experimental.maps.xmap was removed")
    assert "next: shardlift report" not in done.stderr
    assert done.returncode == 1
    done = children.run([*run, "--processes", "2", str(program)], env=env)
    assert done.stderr.rstrip().endswith("see jax.shard_map")
    assert "nothing that JAX" not in done.stderr
