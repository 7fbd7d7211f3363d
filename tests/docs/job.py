"""Runs inside each process of a job: the programs of all pages in turn, what each did as JSON."""

import contextlib
import io
import json
import sys
from pathlib import Path

import jax

from tests.docs.running import execute, message


def main(folder: Path) -> None:
    """Every program has names of its own; an error in one does not keep the next from running."""
    programs = json.loads((folder / "programs.json").read_text())
    done = []
    for place, line, text in programs:
        raised = ""
        with contextlib.redirect_stdout(io.StringIO()) as out:
            try:
                execute(text, place, line, {"__name__": "__main__"})
            except Exception as error:
                raised = message(error)
        done.append((out.getvalue(), raised))
    (folder / f"done.{jax.process_index()}.json").write_text(json.dumps(done))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
