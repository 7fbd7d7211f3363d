"""The magics of a notebook, in a real kernel, and what notebooks show."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

import shardlift
from shardlift.capture.files import read
from shardlift.capture.schema import Capture, Site
from shardlift.cli.notebook import Magics, Report
from shardlift.source.notebook import python_of_cell
from tests.children import plain_environment

NEEDED = ("ipykernel", "nbclient", "nbformat")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
KERNEL = [
    pytest.mark.slow,
    pytest.mark.libraries,
    pytest.mark.filterwarnings("default"),
    pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}"),
]


def kernel(func: Any) -> Any:
    """Marks a test that needs a kernel."""
    for mark in KERNEL:
        func = mark(func)
    return func


def _run(folder: Path, monkeypatch: pytest.MonkeyPatch, *cells: str) -> list[Any]:
    """The outputs of each cell of a notebook."""
    import nbformat
    from nbclient import NotebookClient

    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = folder / "jupyter" / "kernels" / "here"
    spec.mkdir(parents=True)
    text = json.dumps({"argv": argv, "display_name": "here", "language": "python"})
    (spec / "kernel.json").write_text(text)
    for name in ("JUPYTER_PATH", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(folder / "jupyter"))
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    paths = ":".join(path for path in sys.path if path)
    env = plain_environment(PYTHONPATH=paths, JAX_PLATFORMS="cpu", JAX_NUM_CPU_DEVICES="4")
    client = NotebookClient(book, timeout=120, startup_timeout=120, kernel_name="here")
    client.resources = {"metadata": {"path": str(folder)}}
    client.execute(env=env)
    return [cell.outputs for cell in book.cells]


def _data(outputs: Any) -> dict[str, str]:
    """What a cell showed as its result."""
    (result,) = (out for out in outputs if out.output_type == "execute_result")
    return result.data


PMAP = """\
step = jax.pmap(lambda x: jax.lax.psum(x, "i"), axis_name="i")
for _ in range(3):
    y = step(np.ones((4, 2)))
print(jax.tree_map(float, y[0][0]))"""


@kernel
def test_run_check_and_explain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = _run(
        tmp_path,
        monkeypatch,
        "%load_ext shardlift\nimport jax\nimport numpy as np",
        f"%%shardlift run --record run.json\n{PMAP}",
        "%shardlift explain step(np.ones((4, 2)))",
        "%shardlift check",
        "import shardlift\nshardlift.show({'w': y})",
        "%shardlift explain len",
    )
    printed = "".join(out.text for out in outputs[1] if out.output_type == "stream")
    assert printed.startswith("4.0")
    report = _data(outputs[1])
    assert report["text/html"].startswith('<iframe sandbox="allow-scripts"')
    assert "1 pmap site" in report["text/plain"]
    assert "<lambda>  In [2]:2\n" in report["text/plain"]
    assert read(tmp_path / "run.json").sites[0].calls == 3
    explanation = _data(outputs[2])
    assert "psum over i" in explanation["text/html"]
    assert "<td>P(&#x27;i&#x27;)</td>" in explanation["text/html"]
    findings = _data(outputs[3])
    assert "In [2]:2:8: SL201 a lambda is pmapped" in findings["text/plain"]
    assert "In [2]:5:7: SL105" in findings["text/plain"]
    assert "<td>SL201</td>" in findings["text/html"]
    assert "<td>[&#x27;w&#x27;]</td>" in _data(outputs[4])["text/html"]
    assert "takes a call of a pmapped function" in outputs[5][0].text


@kernel
def test_an_error_in_the_cell_is_shown_and_the_patches_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs = _run(
        tmp_path,
        monkeypatch,
        "%load_ext shardlift\nimport jax",
        "%%shardlift run\njax.tree_map(abs, [-1])\nprint(1 / 0)",
        "hasattr(jax, 'tree_map')",
    )
    text = json.dumps(outputs[1])
    assert "ZeroDivisionError" in text
    assert "this run has no pmap site" in text
    assert _data(outputs[2])["text/plain"] == "False"


class Shell:
    """As much of a shell as the line magics use."""

    def __init__(self, **names: Any) -> None:
        self.user_ns = self.user_global_ns = names
        self.history_manager = SimpleNamespace(input_hist_raw=[""])

    def enter(self, magics: Magics, text: str, cell_id: str | None = None) -> None:
        self.history_manager.input_hist_raw.append(text)

        class Info:
            raw_cell, store_history = text, True

        Info.cell_id = cell_id  # type: ignore[attr-defined]
        magics.remember(Info)


def test_a_cell_counts_as_it_was_last_run() -> None:
    shell = Shell()
    magics = Magics(shell)
    shell.enter(magics, "import jax", "a")
    shell.enter(magics, "jax.pmap(len)", "b")
    shell.enter(magics, "%shardlift check", "c")
    assert "In [2]:1:1: SL201" in repr(magics.line("check"))
    shell.enter(magics, "jax.vmap(len)", "b")
    assert repr(magics.line("check")) == "No findings in 2 cells."


def test_cells_that_are_not_python_are_named() -> None:
    shell = Shell()
    magics = Magics(shell)
    shell.enter(magics, "import jax\njax.pmap(len)")
    shell.enter(magics, "this is no Python")
    assert "1 finding in 2 cells. NOT looked at (not Python): In [2]." in repr(magics.check(""))


def test_explain_evaluates_the_arguments_and_does_not_call() -> None:
    calls: list[Any] = []
    magics = Magics(Shell(f=shardlift.pmap(lambda x: (calls.append(1), x)[1]), np=np, jax=jax))
    explanation = magics.line("explain f(np.ones((jax.device_count(), 2)))")
    assert "float32" in str(explanation)
    assert len(calls) == 1  # traced


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "%shardlift check"),
        ("nonsense", "%shardlift check"),
        ("explain", "explain f(x)"),
        ("explain f", "takes a call"),
        ("explain f(", "explain f(x)"),
        ("explain len(x)", "no function of `shardlift.pmap`"),
        ("check src", "!shardlift check src"),
    ],
)
def test_what_is_not_understood_says_what_is(
    line: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert Magics(Shell()).line(line) is None
    assert message in capsys.readouterr().out


def test_unknown_options_of_run_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert Magics(Shell()).cell("run --devices 8", "x = 1") is None
    assert "--devices" in capsys.readouterr().out


def test_a_report_cannot_leave_its_frame() -> None:
    report = Report(Capture(sites=(Site("a.py", 1, '"></iframe><script>', calls=1),)))
    html = report._repr_html_()
    assert "<script>" not in html
    assert html.count("</iframe>") == 1


def test_show_and_explain_escape_what_they_show() -> None:
    shown = shardlift.show({"<b>": np.ones(2)})
    assert isinstance(shown, str)
    assert "&lt;b&gt;" in shown._repr_html_()  # type: ignore[attr-defined]


def test_a_cell_that_is_run_by_shardlift_is_python() -> None:
    assert python_of_cell("%%shardlift run\nx = 1") == "pass\nx = 1"
