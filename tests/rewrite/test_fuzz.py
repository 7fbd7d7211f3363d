"""Random pmap programs: written, migrated, executed, compared bit by bit."""

from __future__ import annotations

from typing import Any

import jax
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import shardlift
from shardlift.rewrite import explicit_sites, sites
from tests.rewrite.run_programs import difference
from tests.rewrite.test_programs import migrated

_BODIES = (
    "{a} * 2.0",
    "jax.lax.psum({a}, {axis})",
    "{a} - jax.lax.pmean({b}, {axis})",
    "{a} + jax.lax.axis_index({axis}).astype(np.float32)",
    "jax.grad(lambda v: jnp.sum(jax.lax.psum(v * {b}, {axis})))({a})",
    "jax.lax.all_gather({a}, {axis})[::2]",
    "jnp.where({a} > 3.0, {a}, {b})",
)


@st.composite
def programs(draw: st.DrawFn) -> str:
    count = draw(st.integers(1, 3))
    rows = draw(st.sampled_from((1, 2, 4, 8, 8, 8)))
    axes = [draw(st.sampled_from((0, 0, 1, None))) for _ in range(count)]
    if not any(axis is not None for axis in axes):
        axes[0] = 0
    static = draw(st.sampled_from((None, None, *range(count + 1))))
    axis = draw(st.sampled_from(("'i'", "NAME", "NAMES['b']")))
    keyword = draw(st.booleans())
    outs = [draw(st.sampled_from((0, 0, 1, None))) for _ in range(draw(st.integers(1, 2)))]

    names = [f"x{k}" for k in range(count)]
    values = [_value(k, a, rows) for k, a in enumerate(axes)]
    written = [_axis(a) for a in axes]
    if static is not None:
        names.insert(static, "n")
        values.insert(static, "3")
        written.insert(static, "None")
    arrays = [name for name in names if name != "n"]
    returned = []
    for out in outs:
        first, second = draw(st.sampled_from(arrays)), draw(st.sampled_from(arrays))
        text = draw(st.sampled_from(_BODIES)).format(a=first, b=second, axis=axis)
        returned.append(f"jax.lax.pmax({text}, {axis})" if out is None else text)
    if static is not None:
        returned[0] += " * float(n)"
    if keyword:
        returned[0] += " + z"
    body = f"({', '.join(returned)},)"
    parameters = ", ".join([*names, *(["z"] if keyword else [])])
    options = _options(draw, axis, axes, written, outs, static)
    call = ", ".join([*values, *([f"z={_value(7, 0, rows)}"] if keyword else [])])
    return _written(draw, parameters, body, options, call)


def _value(seed: int, axis: int | None, rows: int) -> str:
    shape = {0: f"({rows}, 2)", 1: f"(2, {rows})", None: "(2,)"}[axis]
    return f"values({seed}, {shape})"


def _axis(axis: int | None) -> str:
    return "None" if axis is None else str(axis)


def _options(
    draw: st.DrawFn,
    axis: str,
    axes: list[int | None],
    written: list[str],
    outs: list[int | None],
    static: int | None,
) -> str:
    options = [f"axis_name={axis}"]
    if any(a != 0 for a in axes) or draw(st.booleans()):
        listed = f"({', '.join(written)},)"
        options.append(f"in_axes={draw(st.sampled_from((listed, f'tuple(list({listed}))')))}")
    if any(out != 0 for out in outs) or draw(st.booleans()):
        options.append(f"out_axes=({', '.join(_axis(out) for out in outs)},)")
    if static is not None:
        options.append(f"static_broadcasted_argnums={draw(st.sampled_from((static, (static,))))}")
    return ", ".join(draw(st.permutations(options)))


def _written(draw: st.DrawFn, parameters: str, body: str, options: str, call: str) -> str:
    form = draw(st.sampled_from(("call", "lambda", "decorator", "partial", "wrapper", "choice")))
    function = f"def f({parameters}):\n    return {body}\n"
    text = {
        "call": f"{function}p = jax.pmap(f, {options})",
        "lambda": f"p = jax.pmap(lambda {parameters}: {body}, {options})",
        "decorator": f"@functools.partial(jax.pmap, {options})\n{function}p = f",
        "partial": f"{function}pm = functools.partial(jax.pmap, {options})\np = pm(f)",
        "wrapper": f"{function}def w(g, **kw):\n    return jax.pmap(g, **kw)\np = w(f, {options})",
        "choice": f"{function}p = (jax.pmap if NAME else jax.jit)(f, {options})",
    }[form]
    if draw(st.booleans()):
        inner = text.replace("\n", "\n    ")
        return f"{_HEAD}def main():\n    {inner}\n    return p({call})\n"
    return f"{_HEAD}{text}\n\n\ndef main():\n    return p({call})\n"


_HEAD = """import functools
import jax
import jax.numpy as jnp
import numpy as np

NAME = 'i'
NAMES = {'b': 'rows'}


def values(seed, shape):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


"""


def _run(text: str, pmap: Any) -> Any:
    original = jax.pmap
    jax.pmap = pmap
    try:
        names: dict[str, Any] = {"__name__": "program"}
        exec(text, names)
        return names["main"]()
    finally:
        jax.pmap = original


@pytest.mark.slow
@settings(
    max_examples=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(programs())
@example(
    f"{_HEAD}p = jax.pmap(lambda x: x, 'i')\n\n\ndef main():\n    return p(values(0, (8, 2)))\n"
)
def test_random_programs_give_the_same_bits(text: str) -> None:
    with jax.numpy_rank_promotion("allow"):  # as users write
        expected = _run(text, shardlift.pmap)
    is_full = ", 2))" in text and not any(f"({rows}, 2)" in text for rows in (1, 2, 4))
    for is_site in (False, True) if is_full else (False,):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sites, "is_written_out", lambda file: is_site)  # noqa: B023
            patch.setattr(explicit_sites, "may_have_other_rows", lambda *_: False)
            after, _ = migrated({"main.py": text})
        with jax.numpy_rank_promotion("allow"):  # as users write
            assert difference(expected, _run(after["main.py"], shardlift.pmap)) is None
