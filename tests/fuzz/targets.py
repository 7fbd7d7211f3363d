"""What is fuzzed: bytes go in, and nothing but a sentence may come out.

Each target raises if something is wrong. `python -m tests.fuzz` feeds them mutated files; a part
of that is in the suite.
"""

import ast
import contextlib
import io
import tempfile
import tokenize
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

from rich.console import Console

from shardlift.capture import array_archive
from shardlift.capture.files import dumps, loads
from shardlift.check.engine import RuleSelection, check_file
from shardlift.check.noqa import find_suppressions
from shardlift.cli import config, files
from shardlift.cli.check_report import Report
from shardlift.cli.formats import github, json, sarif, terminal
from shardlift.cli.formats.diff import diff_of
from shardlift.facts import CaptureError
from shardlift.report import machine
from shardlift.report import terminal as shown
from shardlift.report.html import page
from shardlift.report.numbers import total_parts
from shardlift.report.view import view_of
from shardlift.rewrite.engine import migrate
from shardlift.rewrite.goal import Goal
from shardlift.source.edits import OverlapError, apply_edits, split_lines
from shardlift.source.project import Project
from shardlift.source.text import UnreadableError, read_source

OBEYED = set("\x1b\x07\u202e")


def check_python(data: bytes, path: str = "a.py") -> None:
    """`check` of a file: findings lie in it, their edits can be made, every format has them."""
    project = Project([path], lambda name: read_source(name, data))
    report = check_file(project, path, data, RuleSelection())
    if report.findings and path.endswith(".py"):
        text = read_source(path, data).text
        lines = len(split_lines(text)) + 1
        for finding in report.findings:
            assert 1 <= finding.span.line <= finding.span.end_line <= lines
            with contextlib.suppress(OverlapError):
                apply_edits(text, finding.edits)
    whole = Report((report,), (0, 12))
    out = io.StringIO()
    console = Console(file=out, width=80, color_system=None)
    terminal.concise(whole, console)
    terminal.full(whole, console)
    terminal.summary(whole, console)
    assert not set(out.getvalue()) & OBEYED
    json.render(whole, 1)
    for style in (github, sarif):
        style.render(whole)


def migrate_python(data: bytes, path: str = "a.py") -> None:
    """`migrate` of a file: what it writes is Python, and it has nothing to do a second time."""
    for goal in Goal:
        done = migrate([path], lambda _: data, lambda _: False, goal)
        assert not [why for _, why in done.unreadable if "failed on it" in why], done.unreadable
        for file in done.changed:
            diff_of(file)
            encoding = _encoding(data, path)
            with contextlib.suppress(UnicodeEncodeError):
                after = file.after.encode(encoding)
                if path.endswith(".py"):
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        ast.parse(file.after)
                again = migrate([path], lambda _, new=after: new, lambda _: False, goal)
                assert not again.unreadable, again.unreadable


def _encoding(data: bytes, path: str) -> str:
    if path.endswith(".ipynb"):
        return "utf-8"
    return tokenize.detect_encoding(io.BytesIO(data).readline)[0]


def capture(data: bytes) -> None:
    """A capture is refused, or can be shown in every form."""
    try:
        found = loads(data)
    except CaptureError:
        return
    assert dumps(loads(dumps(found))) == dumps(found)
    view = view_of(found, "run.json")
    assert all(part >= 0 for part in total_parts(found))
    out = io.StringIO()
    shown.show(view, Console(file=out, width=80, color_system=None))
    texts = [out.getvalue(), machine.render(view)]
    assert not any(set(text) & OBEYED for text in texts)
    assert "<script" not in page(view)


def arrays(data: bytes) -> None:
    """The values beside a capture are refused, or are bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.json")
        Path(array_archive.path_of(path)).write_bytes(data)
        with contextlib.suppress(CaptureError):
            array_archive.load(path)


def settings(data: bytes) -> None:
    """A pyproject.toml, requirements, and comments."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "pyproject.toml")
        for name in ("pyproject.toml", "requirements.txt", "setup.py"):
            Path(folder, name).write_bytes(data)
        with contextlib.suppress(config.ConfigError):
            config.read_config(path)
        list(files.find_files((folder,)))
    find_suppressions(data.decode(errors="replace"))
    with contextlib.suppress(UnreadableError):
        read_source("a.py", data)


TARGETS: dict[str, Callable[[bytes], None]] = {
    "check": check_python,
    "migrate": migrate_python,
    "check-notebook": partial(check_python, path="a.ipynb"),
    "migrate-notebook": partial(migrate_python, path="a.ipynb"),
    "capture": capture,
    "arrays": arrays,
    "settings": settings,
}
