"""The process that runs and records one program: ``python -m shardlift.verify.child JSON``."""

import atexit
import sys

from shardlift.launch.program import report_uncaught
from shardlift.launch.session import RunSession, from_json


def main(argument: str) -> None:
    """Run the program, and write the capture however the program ends."""
    program, options, _ = from_json(argument)
    session = RunSession(options, program)
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
