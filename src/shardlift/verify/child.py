"""The process that runs and records one program: ``python -m shardlift.verify.child JSON``."""

from __future__ import annotations

import atexit
import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from shardlift.launch.program import Program, report_uncaught
from shardlift.launch.session import RunOptions

if TYPE_CHECKING:
    from shardlift.recording.tape.tape import Reference


def to_json(program: Program, options: RunOptions, reference: str | None) -> str:
    """The argument for this module. ``reference`` is the capture whose inputs are replayed."""
    tree = {"program": asdict(program), "options": asdict(options), "reference": reference}
    return json.dumps(tree)


def main(argument: str) -> None:
    """Run the program, and write the capture however the program ends."""
    tree = json.loads(argument)
    program = Program(**{**tree["program"], "args": tuple(tree["program"]["args"])})
    path = tree["reference"]
    reference = None if path is None else lambda: read_reference(path)
    session = RunOptions.from_tree(tree["options"]).begin(program, reference)
    # The first handler is called last: after those of the program, and after all its threads.
    atexit.register(session.end)
    try:
        program.run()
    except SystemExit:
        raise
    except BaseException as error:
        sys.exit(report_uncaught(error)[0])
    finally:
        session.note_devices()


def read_reference(path: str) -> Reference:
    """Read the run of the other program, after the program has imported JAX."""
    from shardlift.capture import files, values
    from shardlift.recording.tape.reference_run import ReferenceRun

    return ReferenceRun(files.read(path), values.load(path))


if __name__ == "__main__":
    main(sys.argv[1])
