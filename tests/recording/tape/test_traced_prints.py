"""What is printed while tracing is left out."""

import io

import jax

from shardlift import _compat  # noqa: F401
from shardlift.recording.tape.traced_prints import leave_out_traced_prints


def test_what_is_printed_while_tracing_is_left_out() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    leave_out_traced_prints(stream)

    @jax.jit
    def f(x):
        print("traced", file=stream)
        return x

    print("before", file=stream)
    f(1.0)
    print("after", file=stream)
    stream.seek(0)
    assert stream.read() == "before\nafter\n"
