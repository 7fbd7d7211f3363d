"""Running the blocks of one page in order, and comparing what they show with what they do.

What is shown may differ from what is printed in white space, where it has `...`, and in times,
ratios of times, sizes of files, versions, process ids, the folder and the phases of long work
(of which a terminal shows a spinner), which are taken out of both
(`plain`).
"""

import contextlib
import doctest
import io
import linecache
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax

from tests import children
from tests.docs.pages import Block

# Exit status 1 of these means that there is something to see, not that they failed.
_FINDS = re.compile(r"shardlift (check|fix|migrate|report|verify)\b")
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class MismatchError(AssertionError):
    """A page shows something else than what happens."""


class Runner:
    """One page: a namespace for its Python, a folder for its commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.printed = ""
        self.raised: BaseException | None = None

    def run(self, blocks: list[Block]) -> None:
        """Every block; an error that the page does not show is an error here."""
        for block in blocks:
            if not for_this_jax(block) or "not run" in block.marks:
                continue
            if "file" in block.marks:
                path = self.folder / block.marks["file"]
                path.parent.mkdir(exist_ok=True)
                path.write_text(block.text)
            elif "part of" in block.marks:
                contains(block, (self.folder / block.marks["part of"]).read_text())
            elif block.language == "python":
                self._expect_no_error()
                self._python(block)
            elif block.language in ("console", "sh"):
                self._expect_no_error()
                self._commands(block)
            elif block.language == "output":
                compare(block, self.printed)
            elif block.language == "diff":
                contains(block, self.printed)
            elif block.language == "pytb":
                compare(block, message(self.raised))
                self.raised = None
        self._expect_no_error()

    def _expect_no_error(self) -> None:
        if self.raised is not None:
            raise self.raised

    def _python(self, block: Block) -> None:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            try:
                execute(block.text, block.place, block.line, self.names)
            except MismatchError:
                raise
            except Exception as error:
                self.raised = error
        self.printed = out.getvalue()

    def _commands(self, block: Block) -> None:
        for command, shown in commands(block):
            env = environment(self.folder)
            shell = ["bash", "-c", command]
            done = children.run(shell, cwd=self.folder, env=env, stderr=children.STDOUT)
            self.printed = done.stdout
            if shown:
                compare(block, done.stdout, shown)
            elif done.returncode > (1 if _FINDS.match(command) else 0):
                raise MismatchError(f"{block.place}: {command}: {done.returncode}\n{done.stdout}")


def execute(text: str, place: str, line: int, names: dict[str, Any]) -> None:
    """Run Python, plain or with prompts; its lines are known to tracebacks by their place."""
    if text.startswith(">>>"):
        test = doctest.DocTestParser().get_doctest(text, names, place, place, line)
        report = io.StringIO()
        runner = doctest.DocTestRunner(optionflags=_FLAGS)
        if runner.run(test, out=report.write, clear_globs=False).failed:
            raise MismatchError(report.getvalue())
        names.update(test.globs)
        return
    linecache.cache[place] = (len(text), None, text.splitlines(keepends=True), place)
    exec(compile(text, place, "exec", dont_inherit=True), names)


def commands(block: Block) -> Iterator[tuple[str, str]]:
    """Commands, each with the output that is shown below it."""
    if block.language == "sh":
        lines = block.text.replace("\\\n", " ").splitlines()
        yield from ((line, "") for line in lines if line and not line.startswith("#"))
        return
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        yield command, shown


def environment(folder: Path) -> dict[str, str]:
    """Of a user's shell: `python` and `shardlift` are this Python's, and no terminal."""
    tools = folder / ".tools"
    if not tools.exists():
        tools.mkdir()
        for name, start in (("python", ""), ("shardlift", "-m shardlift ")):
            (tools / name).write_text(f'#!/bin/sh\nexec {sys.executable} {start}"$@"\n')
            (tools / name).chmod(0o755)
    kept = {key: value for key, value in os.environ.items() if not key.startswith("JAX_")}
    source = str(Path(__file__).parents[2] / "src")
    path = os.pathsep.join([str(tools), kept.get("PATH", "")])
    return kept | {"PATH": path, "PYTHONPATH": source, "COLUMNS": "100", "JAX_PLATFORMS": "cpu"}


def compare(block: Block, happened: str, shown: str | None = None) -> None:
    """Raise unless what is shown is what happened."""
    want, got = plain(block.text if shown is None else shown), plain(happened)
    checker = doctest.OutputChecker()
    if not checker.check_output(want, got, _FLAGS):
        raise MismatchError(f"{block.place} shows\n{want}\nbut there was\n{got}")


def contains(block: Block, text: str) -> None:
    """Raise unless all that is shown is in the text, in one piece."""
    if block.text not in text:
        raise MismatchError(f"{block.place}: this is not there\n{block.text}\nbut\n{text}")


def plain(text: str) -> str:
    """Without what differs from run to run, or between versions of JAX."""
    text = re.sub(r"(?<![\w.])\d+(\.\d+)? ?(ms|µs|s|min|seconds|KiB|MiB|kB|MB)\b", "N", text)
    text = re.sub(r"\d+(\.\d+)? ?%", "N %", text)
    text = re.sub(r"\bpid \d+", "pid N", text)
    text = re.sub(r"\b(JAX|jax|Python|shardlift) \d+(\.\w+)+", r"\1 N", text)
    text = re.sub(r"^shardlift \w+: (running|comparing).*\n", "", text, flags=re.M)  # no terminal
    text = re.sub(r"\. Did you mean '\w+'\?", "", text)  # since Python 3.13
    text = re.sub(r"/\S*/(?=[\w.-]+\.py)", "", text)
    return text.strip() + "\n"


def message(error: BaseException | None) -> str:
    """The last part of a traceback, as Python prints it, without notes."""
    if error is None:
        return "(nothing was raised)"
    kind = type(error)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    name = f"{module}{kind.__qualname__}"
    return f"{name}: {error}" if str(error) else name


def for_this_jax(block: Block) -> bool:
    """Does the mark `jax`, if there is one, hold for the version at hand?"""
    wanted = block.marks.get("jax", "")
    if not wanted:
        return True
    here = jax.__version_info__[:2]
    asked = tuple(int(part) for part in re.findall(r"\d+", wanted))
    return here < asked if wanted.startswith("<") else here >= asked
