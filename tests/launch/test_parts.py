"""The parts of the launcher that need no process."""

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlift.cli.run import explain
from shardlift.launch.job import Failure, Lines
from shardlift.launch.member import place_by_scheduler
from shardlift.launch.program import Program, virtual_devices
from tests import children


def test_only_a_module_has_a_package():
    """It may be an installed one, whose frames are the program's own."""
    assert Program("pkg.train", module=True).package == "pkg"
    assert Program("train.py").package == ""


def test_each_device_has_two_threads_and_each_core_one(monkeypatch: pytest.MonkeyPatch):
    """Of the cores, those that this process may use."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(17)), raising=False)
    for devices, threads in ((8, "17"), (9, "18")):
        env: dict[str, str] = {}
        virtual_devices(devices, env)
        assert env["PJRT_NPROC"] == threads


@given(st.lists(st.text("ab\n", max_size=6), max_size=8))
def test_lines_do_not_depend_on_the_chunks(chunks: list[str]):
    seen: list[str] = []
    lines = Lines(seen.append)
    for chunk in filter(None, chunks):
        lines.feed(chunk.encode())
    lines.feed(b"")
    assert seen == "".join(chunks).splitlines()


def test_explain():
    text = explain(Failure(1, 3, "Traceback\nValueError: x\n", advice=("look there",)), 4)
    assert text.splitlines() == [
        "shardlift: process 1 of 4 failed first, with exit status 3; the others were stopped",
        "shardlift: its traceback:",
        "Traceback",
        "ValueError: x",
        "shardlift: look there",
    ]
    text = explain(Failure(0, -6, "", waiting_for=(1, 2)), 3)
    assert "process 0 of 3 was killed by signal 6" in text
    assert "waiting for process 1, 2, which had not imported jax" in text


@pytest.mark.slow
def test_a_notebook_runs_cell_by_cell(tmp_path: Path):
    cells = ["%cd ..\nx = 1", "no python", "print(x + 1)\n%time y = x\n\nraise ValueError(y)"]
    document = {"cells": [{"cell_type": "code", "source": cell} for cell in cells]}
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps(document))
    done = _run(path)
    assert (done.returncode, done.stdout) == (1, "2\n")
    assert f"shardlift: cell 2 of {path} is not Python, and is left out" in done.stderr
    assert f'File "{path}: cell 3", line 4, in <module>\n    raise ValueError(y)' in done.stderr
    path.write_text("[]")
    assert "not a notebook" in _run(path).stderr


def _run(path: Path) -> children.Done:
    command = [sys.executable, "-m", "shardlift", "run", "-q", str(path)]
    return children.run(command)


@pytest.mark.parametrize(
    ("environ", "place"),
    [
        ("SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=4 SLURM_NTASKS=8", (1, 4)),
        ("SLURM_PROCID=0 SLURM_NTASKS=8", None),  # a batch script
        ("SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1", None),
        ("SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 PMI_RANK=2 PMI_SIZE=4", (2, 4)),  # mpirun in srun
        ("OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4", (3, 4)),
        ("PMI_RANK=0 PMI_SIZE=2", (0, 2)),
        ("JAX_PROCESS_ID=1 JAX_NUM_PROCESSES=2", (1, 2)),
        ("PMI_RANK=1", None),
        ("PMI_RANK=first PMI_SIZE=2", None),
        ("PMI_RANK=2 PMI_SIZE=2", None),
        ("PMI_RANK=-1 PMI_SIZE=2", None),
        ("", None),
    ],
)  # fmt: skip
def test_place(environ: str, place: tuple[int, int] | None):
    assert place_by_scheduler(dict(word.split("=") for word in environ.split())) == place
