"""`check` of a file that is twice as long takes twice the work, however its functions are written.

Work is counted in steps of the interpreter: for n, 2n and 3n functions it grows by equal amounts.
"""

import contextlib
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from shardlift.check.engine import check_text

N = 30
SHAPES = {
    "mapped once": ("", "def fNN(x):\n    return x + 1\n", "g = jax.pmap(f0)\n"),
    "decorated": ("", "@jax.pmap\ndef fNN(x):\n    return x + 1\n", ""),
    "read": ("", "def fNN(x):\n    return x + 1\nyNN = jax.pmap(fNN)(z)\nprint(yNN[0])\n", ""),
    "suppressed": ("", "@jax.pmap  # noqa: SL201\ndef fNN(x):\n    return x + 1\n", ""),
    "one name": ("", "def f(x):\n    return x + 1\npNN = jax.pmap(f)\n", ""),
    "bound again": ("", "def fNN(x):\n    return x + 1\ng = jax.pmap(fNN)\nprint(g(y)[0])\n", ""),
    "defined twice": ("", "def fNN(x):\n    return x\n" * 2, "g = jax.pmap(f0)\n"),
    "in branches": ("", "if c:\n    pNN = jax.pmap(f)\nelse:\n    pNN = jax.vmap(f)\n", ""),
    "in tries": ("", "try:\n    pNN = jax.pmap(f)\nexcept KeyError:\n    pNN = 1\n", ""),
    "one variable": ("x = 1\n", "x = jax.pmap(f)(x)\nx = x[0]\n", ""),
    "methods": ("class C:\n", "    def fNN(self, x):\n        return jax.pmap(self.fNN)(x)\n", ""),
    "removed names": ("", "def fNN(x):\n    return jax.tree_map(h, x)\n", "g = jax.pmap(f0)\n"),
    "removed imports": ("", "from jax import tree_map as fNN\n", "g = jax.pmap(f0)\n"),
    "a removed module": (
        "from jax.lib import xla_bridge\n",
        "def fNN(x):\n    return xla_bridge.get_backend()\n",
        "g = jax.pmap(f0)\n",
    ),
    "a moved module": ("from jax import core\n", "def fNN(x):\n    return core.Jaxpr\n", ""),
    "shard_maps": (
        "",
        "def fNN(x):\n    return x\n"
        "pNN = jax.shard_map(fNN, mesh=m, in_specs=jax.P('i'), out_specs=s)\npNN(x)\n",
        "",
    ),
}  # fmt: skip


def _steps(text: str) -> int:
    """The steps of the interpreter in which a text is checked."""
    steps = 0

    def count(*_: Any) -> None:
        nonlocal steps
        steps += 1

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if event == "opcode":
            count()
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        return trace

    with _monitored(count) if sys.version_info >= (3, 12) else _traced(trace):
        report = check_text(text)
    assert report.parsed
    return steps


@contextlib.contextmanager
def _traced(trace: Callable[..., Any]) -> Iterator[None]:
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


@contextlib.contextmanager
def _monitored(count: Callable[..., None]) -> Iterator[None]:
    """Beside a debugger or coverage, which trace."""
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
    tool, event = 3, monitoring.events.INSTRUCTION
    monitoring.use_tool_id(tool, __name__)
    monitoring.register_callback(tool, event, count)
    monitoring.set_events(tool, event)
    try:
        yield
    finally:
        monitoring.set_events(tool, 0)
        monitoring.free_tool_id(tool)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_work_grows_with_the_file(shape: str) -> None:
    head, body, tail = SHAPES[shape]

    def text(n: int) -> str:
        return f"import jax\n{head}{''.join(body.replace('NN', str(i)) for i in range(n))}{tail}"

    check_text(text(1))  # what is found once per run
    first, second, third = (_steps(text(n * N)) for n in (1, 2, 3))
    more = (third - second) - (second - first)
    assert abs(more) < 0.02 * (second - first), (first, second, third)
