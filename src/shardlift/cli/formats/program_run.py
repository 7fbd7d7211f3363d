"""A run of a program as JSON: what was restored in it, and how it ended."""

import contextlib
import os
import shlex
import sys
import traceback
from collections.abc import Iterator, Mapping

from shardlift._own_files import is_own
from shardlift.cli.document import Item, document, item
from shardlift.launch.job import Failure
from shardlift.launch.missing_name import find_missing_name
from shardlift.launch.program import Program
from shardlift.recording.notebook_lines import cell_of


class RunDocument:
    """What the document of a run is made of, collected while the program runs."""

    def __init__(self, program: Program) -> None:
        """Nothing has happened yet."""
        self.program = program
        self.uses: Mapping[str, int] = {}  # restored names, and how often each was used
        self.failures: list[Item] = []

    @contextlib.contextmanager
    def instead_of_output(self) -> Iterator[None]:
        """What the program prints goes to stderr; stdout has the document, at the end."""
        sys.stdout.flush()
        stdout = os.dup(1)
        os.dup2(2, 1)
        try:
            yield
        except SystemExit as ended:
            sys.stdout.flush()
            with open(stdout, "w", encoding="utf-8") as stream:
                stream.write(self.text(ended.code) + "\n")
            raise

    def add_error(self, error: BaseException) -> None:
        """What ended the program, at the innermost line that is neither Python's nor installed."""
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if is_own(frame.filename)] or frames[-1:]
        where: dict[str, object] = {}
        if own:
            path, line = own[-1].filename, own[-1].lineno or 0
            where = {"path": os.path.relpath(path), "line": line}
            if (place := cell_of(path, line)) is not None:
                where |= dict(zip(("cell", "line"), place, strict=True))
        text = "".join(traceback.format_exception_only(error)).strip()
        missing = find_missing_name(error)
        advice = {"advice": " ".join(missing.lines(patch=True))} if missing else {}
        self.failures.append(item(type(error).__name__, text) | where | advice)

    def add_failure(self, failure: Failure) -> None:
        """The first process of several that failed."""
        last = (failure.traceback.strip().splitlines() or [f"status {failure.status}"])[-1]
        self.failures.append(
            item(last.partition(":")[0], last, process=failure.process, traceback=failure.traceback)
        )
        if failure.advice:
            self.failures[-1]["advice"] = " ".join(failure.advice)

    def text(self, code: object) -> str:
        """The document; `code` is what the program passed to `sys.exit`."""
        status = code if isinstance(code, int) else int(code is not None)
        if isinstance(code, str):
            self.failures.append(item("SystemExit", code))
        names = sorted(self.uses.items(), key=lambda used: -used[1])
        path = self.program.target.replace(".", "/") if self.program.module else self.program.target
        return document(
            "run",
            status,
            done=[item("restored", name, count=n) for name, n in names],
            left=self.failures,
            next_commands=[f"shardlift check {shlex.quote(os.path.dirname(path) or '.')}"],
        )
