"""What nobody meant to give to the commands: a sentence and a status of 2, and the rest is done."""

import errno
import itertools
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from shardlift.cli import files, main
from shardlift.facts import write
from shardlift.source import text as source
from tests.capture.captures import everything

PMAP = "import jax\nstep = jax.pmap(f, axis_name='i')\n"
FOUND = "good.py:2:8: SL201"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "good.py").write_text(PMAP)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(command: str, *arguments: str) -> Result:
    """Run a command; a plain pmap site, which is a note, counts as a finding."""
    fails = ["--fail-on", "note"] if command == "check" else []
    return CliRunner().invoke(main, [command, *fails, *arguments], catch_exceptions=False)


def both(*arguments: str) -> list[Result]:
    """What `check` and `migrate` say; the good file is always looked at, and found."""
    results = [run("check", *arguments), run("migrate", *arguments)]
    assert FOUND in results[0].output
    assert "good.py" in results[1].output
    assert all("failed on it" not in result.output for result in results)
    return results


def cell(text: object) -> dict[str, object]:
    return {"cell_type": "code", "source": text}


def notebook(*sources: object) -> bytes:
    return json.dumps({"cells": [cell(text) for text in sources]}).encode()


CANNOT = [  # more in source/test_text.py
    (b"# coding: hex\n" + PMAP.encode(), "not a text encoding"),
    (b"# coding: undefined\n" + PMAP.encode(), "undefined"),
    (b"x = '\xe9'\n" + PMAP.encode(), "cannot be decoded"),
    (b"import jax\nx = pmap q'{f}'\n", "as Python 3."),
    (b"if jax.pmap:\n\tx\n        y\n", "inconsistent use of tabs"),
    (b"x = " + b"-" * 100_000 + b"jax.pmap(f)", "nested too deeply"),
    (b"if 0: 0\n" + b"elif 1: jax.pmap(f)\n" * 30_000, "nested too deeply"),
    (notebook(PMAP)[:-9], "not a notebook"),
    (b'{"pmap": ' + b"9" * 6000 + b"}", "not a notebook"),
]


def test_a_file_that_cannot_be_looked_at_is_named() -> None:
    names = []
    for number, (content, why) in enumerate(CANNOT):
        names.append(f"a{number}.{'ipynb' if 'notebook' in why else 'py'}")
        Path(names[-1]).write_bytes(content)
    for result in both():
        assert result.exit_code == 2
        lines = result.output.splitlines()
        for name, (_, why) in zip(names, CANNOT, strict=True):
            assert [line for line in lines if name in line and why in line], why


CAN = [
    (b"# coding: latin-1\nx = '\xe9'\n" + PMAP.encode(), "4:8: "),
    (b"\xef\xbb\xbf" + PMAP.encode(), "2:8: "),
    (PMAP.replace("\n", "\r\n").encode(), "2:8: "),
    (PMAP.replace("\n", "\r").encode(), "2:8: "),
    (b"import jax\r\nx = 1\rg = jax.pmap(f,\r'i')\n", "3:5: "),
    (b"import jax\n\x0c\ns = '\x0c\x1c'\ng = jax.pmap(f)\n", "4:5: "),
    (b"import jax\nif 1:\n\tg = jax.pmap(f)\n", "3:6: "),
    (b"import jax; jax.pmap(f)", "1:13: "),
    (notebook(PMAP.replace("\n", "\r")), "cell 1:2:8: "),
    (notebook("x=" + "-" * 100_000 + "y", PMAP), "cell 2:2:8: "),
    (notebook("x = '\ud800'", PMAP), "cell 2:2:8: "),
]


def test_odd_but_fine() -> None:
    for number, (content, place) in enumerate(CAN):
        Path(f"a{number}.{'ipynb' if 'cell' in place else 'py'}").write_bytes(content)
    assert [result.exit_code for result in both()] == [1, 1]
    output = run("check").output
    for number, (_, place) in enumerate(CAN):
        assert re.search(rf"^a{number}\.\w+:{place}", output, re.M), place
    assert run("check", "--format", "full").output.count("^^") >= len(CAN)
    for style in ("json", "sarif", "github"):
        assert run("check", "--format", style).exit_code == 1


def test_a_diff_can_be_applied_whatever_the_line_ends(folder: Path) -> None:
    text = b"import jax\r\n\r\nif 1:\r\n\tg = jax.pmap(f)\x0c # \xe2\x80\xa8\r\n"
    Path("a.py").write_bytes(text)
    result = run("migrate", "a.py")
    assert b"-\tg = jax.pmap(f)\x0c # \xe2\x80\xa8\r\n" in result.stdout_bytes


def test_more_python_than_can_be_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "LARGEST", 1000)
    Path("a.py").write_text(PMAP + "#" * 2000)
    for result in both():
        assert result.exit_code == 2
        assert "more than the limit" in result.output


def test_a_file_larger_than_any_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LARGEST_FILE", 1000)
    Path("a.py").write_text("#" * 2000)
    result = run("check")
    assert (result.exit_code, "a.py: has more than" in result.output) == (2, True)


def test_one_long_line_is_linear() -> None:
    Path("a.py").write_text("import jax\nx = [" + "'é', jax.tree_map(f, x), " * 500 + "]\n")
    assert run("check", "a.py", "-q").output.count("SL105") == 500
    Path("b.py").write_text("from jax import (" * 5000)
    assert run("check", "b.py").exit_code == 0  # no name that a rule looks for


def test_links_pipes_devices_and_folders_with_names_of_files(folder: Path) -> None:
    os.symlink("a.py", "a.py")
    os.symlink("nowhere.py", "b.py")
    os.symlink(".", "loop")
    os.symlink("/dev/zero", "c.py")
    os.mkfifo("d.py")
    (folder / "e.py").mkdir()
    (folder / "e.py" / "in.py").write_text(PMAP)
    os.symlink("e.py", "f.py")
    for result in both():
        assert result.exit_code == 1
        assert "e.py/in.py" in result.output
    listed = run("check", "--verbose").output
    assert [name for name in "abcdf" if f"left out: {name}.py\n" in listed] == list("abcdf")
    for name in "cd":
        result = run("check", f"{name}.py")
        assert (result.exit_code, "is not a file" in result.output) == (2, True)


def test_a_file_that_cannot_be_opened_or_goes_away(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a folder that cannot be listed."""
    (folder / "closed").mkdir()
    errors = {
        "secret.py": PermissionError(errno.EACCES, "Permission denied"),
        "gone.py": FileNotFoundError(errno.ENOENT, "No such file or directory"),
        "closed": PermissionError(errno.EACCES, "Permission denied"),
    }
    for name in ("secret.py", "gone.py"):
        Path(name).write_text(PMAP)
    for function in ("open", "scandir"):
        real = getattr(os, function)

        def refusing(path: str, *rest: int, real: Any = real) -> Any:
            if error := errors.get(os.path.basename(path)):
                raise error
            return real(path, *rest)

        monkeypatch.setattr(files.os, function, refusing)
    result = run("check")
    assert result.exit_code == 2
    assert FOUND in result.output
    for name, error in errors.items():
        assert f"{name}: {error.strerror}" in result.output


def test_a_fault_of_ours_is_told_and_costs_one_file(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("a.py").write_text(PMAP)
    from shardlift.cli import check_files

    real = check_files.check_file

    def faulty(project: object, path: str, *rest: object, **more: object) -> object:
        if path == "a.py":
            raise KeyError("oh")
        return real(project, path, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(check_files, "check_file", faulty)
    result = run("check")
    assert result.exit_code == 2
    assert FOUND in result.output
    assert "a.py: shardlift failed on it, please report it: KeyError" in result.output


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("tool = 3", None),
        ("tool.shardlift = 3", "is a table"),
        ("project = []", None),
        ("project.dependencies = 3\nproject.optional-dependencies = 4", None),
        ("project.optional-dependencies.a = 4", None),
        ("[tool.poetry.dependencies]\njax = [1]", None),
        ("[tool.poetry]\ndependencies = 1", None),
        ("[tool.poetry]\ngroup = 1\ndev-dependencies = 1", None),
        ("[tool.poetry.group]\ndev = 1\ntpu.dependencies = 2", None),
        ("x = " + "[" * 5000, "nested too deeply"),
        ("x = " + "9" * 5000, "pyproject.toml"),
        ("\udcff", "pyproject.toml"),
        ('tool.shardlift.target-jax = "new"', "target-jax"),
        ("tool.shardlift.select = 3", "select is a list"),
        ("tool.shardlift.slect = []", "has no slect"),
        ("[tool", "pyproject.toml"),
        ('tool.shardlift.select = ["XX"]', "XX"),
        ("tool.shardlift.per-file-ignores = 3", "is a table"),
        (f'project.dependencies = ["jax<{"9" * 5000}"]', None),
    ],
)
def test_a_strange_pyproject(folder: Path, text: str, why: str | None) -> None:
    (folder / "pyproject.toml").write_bytes(text.encode(errors="surrogateescape"))
    result = run("check")
    assert result.exit_code == (1 if why is None else 2)
    assert why is None or why in result.output


# ---- names, and what a terminal would obey


ODD = [
    " sp ace.py",
    "new\nline.py",
    "[red]x[bold].py",
    "\x1b[31m.py",
    "<b>.py",
    "|`.py",
    "\udcff.py",
]


def test_odd_names(folder: Path) -> None:
    for name in [*ODD, "-dash.py"]:
        (folder / name).write_text(PMAP)
    for style in ("full", "concise", "json", "sarif", "github"):
        result = run("check", "--format", style)
        assert result.exit_code == 1
        assert "\x1b" not in result.output
        assert "\udcff" not in result.output
    shown = run("check").output
    for name in ("\\x1b[31m.py:2:8", "new\\nline.py:2:8", "[red]x[bold].py:2:8", "\\udcff.py:2:8"):
        assert name in shown
    assert "skipped: [red]x[bold].py" in run("check", "--verbose", "--select", "SL7").output
    assert "\x1b" not in run("migrate").output
    document = json.loads(run("check", "--format", "sarif").output)
    places = {
        result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        for result in document["runs"][0]["results"]
    }
    assert {"%1B%5B31m.py", "new%0Aline.py", "%FF.py", "%3Cb%3E.py"} <= places
    assert run("check", "--", "-dash.py").exit_code == 1


# What begins a command in the log of a job: `::` after spaces, `##[` anywhere.
COMMANDS = ["::error file=x::y.py", " ::add-mask::y.py", "a ##[error]y.py", "##vso[x]y.py"]


@pytest.mark.parametrize("name", COMMANDS)
def test_no_name_is_a_command_in_the_log_of_a_job(folder: Path, name: str) -> None:
    (folder / name).write_text(f"{PMAP}g = jax.pmap(h, in_axes=-1)\n")
    (folder / f"{name}.ipynb").write_text("{")
    outputs = [run("check", "--verbose", "--format", style) for style in ("concise", "full")]
    outputs.append(run("status"))
    lines = [line for result in outputs for line in result.output.splitlines()]
    lines += run("migrate", "--verbose").stderr.splitlines()
    assert len([line for line in lines if "y.py" in line]) > 6
    assert not [line for line in lines if line.lstrip().startswith("::") or "##[" in line]
    assert not [line for line in lines if "##vso[" in line]
    found = run("check", "--format", "github").output.splitlines()
    assert all(re.match(r"::(error|notice) file=[^:]*::", line) for line in found), found
    encoded = name.replace(":", "%3A").replace("##", "#\\x23")
    assert f"::notice file={encoded},line=2," in "\n".join(found)


def test_code_is_shown_and_not_obeyed(folder: Path) -> None:
    Path("a.py").write_text(
        "import jax\nx = '\x1b]0;t\x07[red]'; g = jax.pmap(f, '\x1b[2J')  # é\u202e\n"
    )
    for style in ("full", "concise", "github"):
        output = run("check", "--format", style, "a.py").output
        assert not set(output) & set("\x1b\x07\u202e")
    full = run("check", "--format", "full", "a.py").output.splitlines()
    line, mark = next((a, b) for a, b in itertools.pairwise(full) if "^" in b)
    assert line[mark.index("^") :].startswith("jax.pmap(f,")
    assert "[red]" in line


# ---- captures


def test_a_capture_that_cannot_be_read(folder: Path) -> None:
    (folder / "other.json").write_text('{"a": 1}')
    (folder / "half.json").write_text('{"schema": "shardlift.capture", "ver')
    (folder / "new.json").write_text('{"schema": "shardlift.capture", "version": 99}')
    write(everything(), folder / "run.json")
    for command in (["report"], ["verify", "run.json"]):
        for path, why in [
            (".", "shardlift"),
            ("nowhere.json", "nowhere.json"),
            ("other.json", "is not a capture"),
            ("half.json", "is damaged"),
            ("new.json", "newer shardlift"),
        ]:
            result = run(*command, path)
            assert result.exit_code == 2, (command, path, result.output)
            assert why in result.output
    assert run("report", "/dev/null").exit_code == 2


def test_values_that_cannot_be_read(folder: Path) -> None:
    write(everything(), folder / "run.json")
    import io

    import numpy as np

    wrong = io.BytesIO()
    np.savez(wrong, a=np.ones((2, 2)))
    for content in (b"", b"PK\x03\x04" * 9, b"\x93NUMPY\x01\x00", wrong.getvalue()):
        (folder / "run.json.npz").write_bytes(content)
        result = run("verify", "run.json", "run.json")
        assert result.exit_code == 2
        assert "run.json.npz is damaged" in result.output


def test_what_a_capture_says_is_shown_and_not_obeyed(folder: Path) -> None:
    nasty = "\x1b[31m[red]x[/red]|`<script>\n\u202e"
    write(everything(nasty), folder / "run.json")
    for extra in ([], ["--format", "json"]):
        output = run("report", "run.json", *extra).output
        assert not set(output) & set("\x1b\u202e")
    for style in ("text", "json"):
        result = run("verify", "run.json", "run.json", "--format", style)
        assert result.exit_code in (0, 1, 2)
        assert not set(result.output) & set("\x1b\u202e")


def test_a_page_that_cannot_be_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(everything(), folder / "run.json")
    (folder / "page.html").write_text("old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    result = run("report", "run.json", "--html", "page.html")
    assert result.exit_code == 2
    assert "page.html cannot be written: No space left" in result.output
    assert (folder / "page.html").read_text() == "old"
    assert sorted(os.listdir()) == [".git", "good.py", "page.html", "run.json"]
