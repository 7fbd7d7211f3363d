"""The magics of a notebook: ``%%shardlift run``, ``%shardlift check``, ``%shardlift explain``."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import html
import io
import json
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from shardlift._html_table import html_table
from shardlift.capture.schema import Capture, Site
from shardlift.check.engine import FileReport, Options, check_file
from shardlift.check.rules import all_rules
from shardlift.cli.config import Config, ConfigError, find_config
from shardlift.report import terminal
from shardlift.report.numbers import count
from shardlift.report.view import View, view_of
from shardlift.source.model import Finding
from shardlift.source.project import Project
from shardlift.source.text import read_source

_HELP = """\
%%shardlift run [--record FILE] [--no-patch]   run the cell with the pmap of old, and show a report
%shardlift check                               check all cells that were run
%shardlift explain f(x)                        what a call of a pmapped function would do
"""
_NOTEBOOK = "notebook.ipynb"
_HEIGHT = 560  # pixels of an inline report; it scrolls


def load(ipython: Any) -> None:
    """Register the magics with an IPython shell."""
    magics = Magics(ipython)
    ipython.register_magic_function(magics.line, "line", "shardlift")
    ipython.register_magic_function(magics.cell, "cell", "shardlift")
    ipython.events.register("pre_run_cell", magics.remember)


class UsageError(Exception):
    """A magic was used in a way that it does not know; the message says what it knows."""


class Report:
    """The report of a run; a notebook shows the HTML page, everything else prints the text."""

    def __init__(self, capture: Capture, path: str = "") -> None:
        """`path` is where the capture was written, if it was."""
        self.view: View = view_of(capture, path)

    def __repr__(self) -> str:
        out = io.StringIO()
        terminal.show(
            self.view,
            Console(file=out, highlight=False, width=100, force_jupyter=False, color_system=None),
        )
        return out.getvalue().rstrip()

    def _repr_html_(self) -> str:
        from shardlift.report.html import page

        document = html.escape(page(self.view), quote=True)
        style = f"width:100%;height:{_HEIGHT}px;border:1px solid #8884"
        headline = html.escape(self.view.headline)
        return (
            f'<iframe sandbox="allow-scripts" title="{headline}" style="{style}" '
            f'srcdoc="{document}"></iframe>'
        )


class Findings:
    """What `check` found in the cells of a notebook."""

    def __init__(self, report: FileReport, numbers: Sequence[int]) -> None:
        """`numbers` are those of the cells, as in ``In [3]``."""
        self.report, self.numbers = report, numbers

    def __repr__(self) -> str:
        rows = [
            f"{place}:{finding.span.column + 1}: {finding.code} {finding.message}"
            for place, finding in self._placed()
        ]
        return "\n".join([*rows, self._summary()])

    def _repr_html_(self) -> str:
        rows = [
            (place, finding.code, finding.message, all_rules()[finding.code].advice)
            for place, finding in self._placed()
        ]
        if not rows:
            return f"<p>{html.escape(self._summary())}</p>"
        return html_table(("cell", "rule", "finding", "what to do"), rows, self._summary())

    def _placed(self) -> list[tuple[str, Finding]]:
        found = self.report.findings
        return [(f"In [{self.numbers[(f.span.cell or 1) - 1]}]:{f.span.line}", f) for f in found]

    def _summary(self) -> str:
        if self.report.unreadable is not None:
            return f"NOT looked at: {self.report.unreadable}"
        number = len(self.report.findings)
        found = count(number, "finding") if number else "No findings"
        broken = [f"In [{self.numbers[number - 1]}]" for number in self.report.broken_cells]
        rest = f" NOT looked at (not Python): {', '.join(broken)}." if broken else ""
        return f"{found} in {count(len(self.numbers), 'cell')}.{rest}"


class Magics:
    """The magics of one shell."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        # The text of each cell and its number, by its identity: a cell that is run again counts
        # as it is now.
        self.cells: dict[str, tuple[int, str]] = {
            text: (number, text)
            for number, text in enumerate(shell.history_manager.input_hist_raw)
            if text.strip()
        }

    def remember(self, info: Any) -> None:
        """Keep the text of a cell that is about to be run."""
        if info.store_history and not _asks_only(info.raw_cell):
            key = getattr(info, "cell_id", None) or info.raw_cell
            history = self.shell.history_manager.input_hist_raw
            # IPython 9 has stored the text by now, and counted on; older versions have not.
            is_stored = history[-1].strip() == info.raw_cell.strip()
            self.cells.pop(key, None)
            self.cells[key] = len(history) - is_stored, info.raw_cell

    def line(self, line: str) -> Any:
        """``%shardlift check`` and ``%shardlift explain f(x)``."""
        command, _, rest = line.strip().partition(" ")
        return self._answer({"check": self.check, "explain": self.explain}, command, rest)

    def cell(self, line: str, cell: str) -> Any:
        """``%%shardlift run``."""
        command, _, rest = line.strip().partition(" ")
        return self._answer({"run": lambda options: self.run(options, cell)}, command, rest)

    def _answer(self, known: dict[str, Callable[[str], Any]], command: str, rest: str) -> Any:
        try:
            if command not in known:
                raise UsageError(_HELP)
            return known[command](rest)
        except UsageError as error:
            print(error)
            return None

    def check(self, rest: str) -> Findings:
        """Check all cells that were run, as they are now, in the order in which they were run."""
        if rest.strip():
            raise UsageError("%shardlift check checks the cells of this notebook; for files, use\n"
                             f"!shardlift check {rest.strip()}")  # fmt: skip
        numbered = sorted(self.cells.values())
        cells = [{"cell_type": "code", "source": text} for _, text in numbered]
        content = json.dumps({"cells": cells}).encode()
        config = _config()
        options = Options(config.select or ("SL",), config.ignore, config.per_file_ignores)
        source = read_source(_NOTEBOOK, content)
        project = Project([_NOTEBOOK], lambda _: source, config.settings())
        report = check_file(project, _NOTEBOOK, content, options)
        return Findings(report, [number for number, _ in numbered])

    def explain(self, rest: str) -> Any:
        """Explain a call: the function and its arguments are evaluated, the call is not made."""
        try:
            call = ast.parse(rest.strip(), mode="eval").body
        except SyntaxError as error:
            raise UsageError(f"%shardlift explain f(x): {error.msg}") from None
        if not isinstance(call, ast.Call):
            raise UsageError("%shardlift explain f(x) takes a call of a pmapped function")
        name = ast.unparse(call.func)
        function = self._evaluate(call.func)
        if not hasattr(function, "explain"):
            raise UsageError(
                f"{name} is no function of `shardlift.pmap`. In a cell with %%shardlift run, "
                "`jax.pmap` makes one, too"
            )
        # `f.explain(x)`, with the arguments as they stand.
        asked = ast.Call(ast.Attribute(call.func, "explain", ast.Load()), call.args, call.keywords)
        return self._evaluate(asked)

    def _evaluate(self, node: ast.expr) -> Any:
        expression = ast.fix_missing_locations(ast.Expression(node))
        code = compile(expression, "<%shardlift explain>", "eval")
        return eval(code, self.shell.user_global_ns, self.shell.user_ns)

    def run(self, line: str, cell: str) -> Report | None:
        """Run a cell as `shardlift run` runs a program, and report on it."""
        from shardlift._legacy import legacy
        from shardlift.capture.files import write
        from shardlift.recording.recorder import Recorder

        options = _run_options(line)
        recorder = Recorder(command=("%%shardlift run",), patched=not options.no_patch)
        with legacy(patch=not options.no_patch, recorder=recorder):
            # A line for the magic: the lines of sites are those of the cell. IPython would remove
            # an empty one.
            text = cell if cell.startswith("%%") else f"# %%shardlift run\n{cell}"
            self.shell.run_cell(text, store_history=False)
        capture = self._with_cell_names(recorder.capture())
        if options.record:
            write(capture, options.record)
        return Report(capture, options.record or "")

    def _with_cell_names(self, capture: Capture) -> Capture:
        """The capture with `In [3]` for the names of files that IPython gives to cells."""
        sites = tuple(self._with_cell_names_of(site) for site in capture.sites)
        return dataclasses.replace(capture, sites=sites)

    def _with_cell_names_of(self, site: Site) -> Site:
        reads = (dataclasses.replace(read, file=self._name(read.file)) for read in site.reads)
        return dataclasses.replace(site, file=self._name(site.file), reads=tuple(reads))

    def _name(self, file: str) -> str:
        named = getattr(self.shell.compile, "format_code_name", lambda _: None)(file)
        number = re.search(r"\d+", named[1]) if named else None
        if number is None:
            return file
        # IPython has counted on when the cell inside this one is run.
        return f"In [{min(int(number[0]), max(k for k, _ in self.cells.values()))}]"


def _asks_only(text: str) -> bool:
    """Whether a cell is a line magic of ours, and nothing else."""
    return text.strip().startswith("%shardlift") and "\n" not in text.strip()


def _config() -> Config:
    try:
        return find_config(Path.cwd())
    except (ConfigError, OSError) as error:
        raise UsageError(str(error)) from None


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise UsageError(f"%%shardlift run: {message}\n{_HELP}")


def _run_options(line: str) -> argparse.Namespace:
    parser = _Parser(add_help=False)
    parser.add_argument("--record", metavar="FILE")
    parser.add_argument("--no-patch", action="store_true")
    return parser.parse_args(shlex.split(line))
