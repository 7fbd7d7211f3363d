"""The process that runs and records one program: ``python -m shardlift.verify.child JSON``."""

from __future__ import annotations

import atexit
import json
import sys
from dataclasses import asdict

from shardlift.launch.program import Program, report_uncaught
from shardlift.launch.session import RunOptions, RunSession


def to_json(program: Program, options: RunOptions) -> str:
    """The argument for this module."""
    return json.dumps({"program": asdict(program), "options": asdict(options)})


def main(argument: str) -> None:
    """Run the program, and write the capture however the program ends."""
    tree = json.loads(argument)
    program = Program(**{**tree["program"], "args": tuple(tree["program"]["args"])})
    session = RunSession(RunOptions.from_tree(tree["options"]), program)
    # The first handler is called last: after the program's handlers, and after all its threads.
    atexit.register(session.end)
    try:
        program.run()
    except SystemExit:
        raise
    except BaseException as error:
        sys.exit(report_uncaught(error)[0])
    finally:
        session.note_devices()


if __name__ == "__main__":
    # By its own name, so that tracebacks are shown without its frames.
    from shardlift.verify import child

    child.main(sys.argv[1])
