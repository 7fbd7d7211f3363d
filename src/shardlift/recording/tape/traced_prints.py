"""Leaves out what a program prints while JAX traces its functions.

That is no output of the program: how often a function is traced depends on who maps it and on
what is recorded. No JAX here.
"""

import sys
from typing import Any


def leave_out_traced_prints(stream: Any) -> None:
    """From now on, drop what is written to a stream of text while JAX traces a function."""
    write = stream.write

    def write_unless_tracing(text: str) -> int:
        # It is imported with JAX; before that, nothing is traced.
        tracing = getattr(sys.modules.get("shardlift._compat"), "tracing", None)
        return len(text) if tracing is not None and tracing() else int(write(text))

    stream.write = write_unless_tracing
