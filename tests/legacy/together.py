"""Run legacy programs one after the other in this process: ``together.py OUT PROGRAM...``.

Each runs as ``__main__``. What it leaves in ``RESULTS`` goes to OUT/<program>.npz; the error of
one that fails goes to OUT/<program>.error. Nothing here knows which JAX it is, or who runs it.
"""

import os
import runpy
import sys

import numpy as np


def run(program, out):
    """Run one, and keep what it leaves."""
    name = os.path.splitext(os.path.basename(program))[0]
    argv, sys.argv = sys.argv, [program]
    try:
        results = runpy.run_path(program, run_name="__main__")["RESULTS"]
        arrays = {key: np.asarray(value) for key, value in results.items()}
    except Exception as error:
        with open(os.path.join(out, name + ".error"), "w") as file:
            file.write(f"{type(error).__name__}: {error}")
    else:
        np.savez_compressed(os.path.join(out, name + ".npz"), **arrays)
    finally:
        sys.argv = argv


if __name__ == "__main__":
    for path in sys.argv[2:]:
        run(path, sys.argv[1])
