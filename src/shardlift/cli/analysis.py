"""`migrate --analyse MODULE:FUNCTION`: what a child proves of pmapped functions."""

from __future__ import annotations

import tempfile
from pathlib import Path

from shardlift.capture.schema import Capture
from shardlift.cli.captures import read_capture
from shardlift.cli.stop import stop

_DEVICES = 8  # virtual ones: nothing runs on them


def analysed(target: str) -> Capture:
    """What is proven of the functions that an example of the program returns, with its arguments.

    The example is imported and called in a process of its own, from the current folder.
    """
    names = [part.replace(".", "_") for part in target.split(":")]
    if len(names) != 2 or not all(map(str.isidentifier, names)):
        stop(f"--analyse {target}: it is MODULE:FUNCTION, for example train:example")
    from shardlift.cli.children import plain_environment, run_python

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "analysis.json"))
        options = ["--quiet", "--record", path, "-m", "shardlift.recording.analysis", target]
        done = run_python(["-m", "shardlift", "run", *options], plain_environment(_DEVICES))
        if done.status:
            stop(f"--analyse {target} failed:\n{done.output.rstrip()}")
        return read_capture(path, "--analyse")
