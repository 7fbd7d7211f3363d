"""What each process of the harness runs: ``python child.py FOLDER PROCESS``."""

# The text of a test's function is compiled as this file is: its annotations are not evaluated.
from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path


def main(folder: Path, process: int) -> int:
    task = json.loads((folder / "task.json").read_text())
    outcome = folder / f"{process}.json"
    try:
        import jax

        jax.distributed.initialize(process_id=process, **task["initialize"])
        space: dict[str, object] = {"__name__": "body"}
        exec(compile((folder / "body.py").read_text(), folder / "body.py", "exec"), space)
        value = space[task["name"]](*task["args"])  # type: ignore[operator]
        outcome.write_text(json.dumps({"value": value}))
    except BaseException as error:
        traceback.print_exc()
        outcome.write_text(json.dumps({"error": f"{type(error).__name__}: {error}"}))
        return 1
    return 0


if __name__ == "__main__":
    status = main(Path(sys.argv[1]), int(sys.argv[2]))
    if status:
        # The other processes may be stuck: do not wait for them in jax's shutdown.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
