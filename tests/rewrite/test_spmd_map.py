"""`spmd_map`, run as it is written into projects: it does what `jax.pmap` does."""

import ast
import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from shardlift.rewrite.call_format import Style
from shardlift.rewrite.helpers import AXES, DONATING, catalogue, emit
from shardlift.source.model import HelperRequest
from tests import children

X = np.arange(16, dtype=np.float32).reshape(8, 2)
NAMES = ("device_put_sharded", "replicate", "prefetch_to_device", "unreplicate")
QUOTES = {'"': "double", "'": "single"}
W = np.arange(2, dtype=np.float32)
STYLES = [
    Style.plain(),
    Style(80, "  ", "'"),
    Style(100, "    ", '"', typed=True),
    Style(120, "\t", "'", typed=True),
]


ROWS = HelperRequest("spmd_map", axis="i")
WITH_AXES = HelperRequest("spmd_map", frozenset({AXES}), "i")
DONATED = HelperRequest("spmd_map", frozenset({DONATING}), "i")
DONATED_AXES = HelperRequest("spmd_map", frozenset({AXES, DONATING}), "i")
TEXTS = [ROWS, WITH_AXES, DONATED, DONATED_AXES]
IDS = ["rows", "axes", "donating", "donating axes"]
EACH = pytest.mark.parametrize("request_", TEXTS, ids=IDS)


def spmd_map(asked: HelperRequest, style: Style = STYLES[0]) -> Callable[..., Any]:
    """The helper, from the text that is written."""
    names: dict[str, Any] = {"__name__": "written"}
    exec(emit([asked], style), names)
    return names["spmd_map"]


def total(x: Any, w: Any) -> Any:
    return {"sum": jax.lax.psum(x * w, "i"), "mean": jax.lax.pmean(x.sum(), "i")}


CALLS: dict[str, tuple[dict[str, Any], Callable[..., Any], tuple[Any, ...]]] = {
    "leading": ({}, total, (X, X)),
    "donated": ({"donate_argnums": (0,)}, total, (X, X)),
    "fewer rows than devices": ({}, total, (X[:3], X[:3])),
    "keys": ({}, jax.random.normal, (jax.random.split(jax.random.key(0), 8),)),
    "nothing mapped in one argument": ({}, lambda x, tree: x, (X, {})),
    "unmapped": ({"in_axes": (0, None)}, total, (X, W)),
    "unmapped number": ({"in_axes": (0, None)}, total, (X, 3)),
    "unmapped tree": ({"in_axes": (None, 0)}, lambda d, x: d["w"] * x, ({"w": W, "n": 1}, X)),
}


@pytest.mark.parametrize("name", CALLS)
def test_it_computes_what_pmap_computes(name: str) -> None:
    options, function, args = CALLS[name]
    expected = jax.pmap(function, "i", **options)(*jax.tree.map(copied, args))
    texts = TEXTS[1::2] if "in_axes" in options else TEXTS[2 if options else 0 :]
    for asked, style in itertools.product(texts, STYLES):
        mapped = spmd_map(asked, style)(function, "i", **options)
        got = mapped(*jax.tree.map(copied, args))
        assert jax.tree.map(_kind, got) == jax.tree.map(_kind, expected)
        jax.tree.map(assert_array_equal, got, expected)


def copied(x: Any) -> Any:
    """Its own array, where it is one that may be donated."""
    return jnp.copy(x) if isinstance(x, jax.Array) else x


def _kind(x: jax.Array) -> tuple[Any, ...]:
    return x.shape, x.dtype, x.weak_type, x.sharding.device_set, x.sharding.is_fully_replicated


BAD = {"a number": (3.0,), "an array without rows": (jnp.array(3.0),), "nothing": ({},)}


@pytest.mark.parametrize("args", BAD.values(), ids=list(BAD))
@EACH
def test_arguments_without_rows_are_an_error(request_: HelperRequest, args: Any) -> None:
    with pytest.raises((ValueError, IndexError)):  # jax.pmap 0.12: IndexError
        spmd_map(request_)(lambda x: x, "i")(*args)


@pytest.mark.parametrize("request_", TEXTS[2:], ids=IDS[2:])
def test_arguments_by_name_are_sliced_and_not_donated(request_: HelperRequest) -> None:
    mapped = spmd_map(request_)(lambda x, y: x + y, "i", donate_argnums=(0,))
    x, y = jax.device_put((X, X), jax.NamedSharding(jax.make_mesh((8,), ("i",)), jax.P("i")))
    assert_array_equal(mapped(x, y=y), 2 * X)
    assert x.is_deleted()
    assert not y.is_deleted()


@EACH
def test_all_arguments_may_be_given_by_name(request_: HelperRequest) -> None:
    assert_array_equal(spmd_map(request_)(lambda x, y: x + y, "i")(x=X, y=X), 2 * X)


def test_what_is_not_sliced_may_lie_on_any_device() -> None:
    mapped = spmd_map(WITH_AXES)(total, "i", in_axes=(0, None))
    for device in (jax.devices()[0], jax.devices()[5]):
        assert_array_equal(mapped(X, jax.device_put(W, device))["sum"][0], (X * W).sum(0))


def test_an_error_of_the_function_is_its_own() -> None:
    calls: list[int] = []

    def fails(x: Any) -> Any:
        calls.append(1)
        raise ValueError("no")

    with pytest.raises(ValueError, match="^no\\b"):
        spmd_map(WITH_AXES)(fails)(X)
    assert calls == [1]


def test_no_device_is_asked_for_before_the_first_call(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        for name in ("devices", "local_devices", "process_count", "device_count"):
            patch.setattr(jax, name, None)
        mapped = [spmd_map(asked)(total, "i") for asked in TEXTS]
    for one in mapped:
        one(X, X)


def test_a_training_step_is_compiled_once() -> None:
    """Placing helpers use the axis name of the sites, so that all arrays have the same type."""
    names: dict[str, Any] = {"__name__": "written"}
    asked = HelperRequest("spmd_map", frozenset({DONATING}), "batch")
    exec(emit([asked, HelperRequest("replicate")]), names)
    traced: list[int] = []

    def step(state: Any, batch: Any) -> Any:
        traced.append(1)
        return {"w": state["w"] - jax.lax.pmean(batch, "batch").sum()}

    mapped = names["spmd_map"](step, "batch", donate_argnums=(0,))
    state = names["replicate"]({"w": np.zeros(3, np.float32)})
    for _ in range(3):
        state = mapped(state, X)
    assert traced == [1]


@EACH
def test_under_other_transformations(request_: HelperRequest) -> None:
    mapped = spmd_map(request_)(lambda x: x**2, "i")
    assert_array_equal(jax.jit(mapped)(X), X**2)
    assert_array_equal(jax.grad(lambda x: mapped(x).sum())(X), 2 * X)
    assert_array_equal(jax.vmap(mapped)(np.stack([X, X])), np.stack([X, X]) ** 2)


def test_gradients_of_whole_arguments() -> None:
    mapped = spmd_map(WITH_AXES)(lambda x, w: x * w, "i", in_axes=(0, None))
    assert_array_equal(jax.grad(lambda w: mapped(X, w).sum())(W), X.sum(0))
    assert_array_equal(jax.jit(jax.grad(lambda w: mapped(X, w).sum()))(W), X.sum(0))


WRITTEN = [[one, *map(HelperRequest, NAMES)] for one in TEXTS]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("helpers", WRITTEN)
def test_the_text_is_in_the_style_of_the_project(style: Style, helpers: Any) -> None:
    text = emit(helpers, style)
    assert ("->" in text) == style.typed
    names = {n.name for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)}
    assert names == {"spmd_map", *NAMES, "device_put_replicated", "first_row"}


ALL = [*WRITTEN, [HelperRequest("shard_map_per_device")], [HelperRequest("per_row_of")]]


@pytest.mark.parametrize("typed", [True, False])
@pytest.mark.parametrize("width", [80, 88, 100, 120])
def test_a_formatter_leaves_the_text_as_it_is(width: int, typed: bool, tmp_path: Path) -> None:
    quote = "'" if typed else '"'
    for k, helpers in enumerate(ALL):
        text = emit(helpers, Style(width, "    ", quote, typed))
        (tmp_path / f"helpers_{k}.py").write_text(text)
    command = [sys.executable, "-m", "ruff", "format", "--isolated", "--diff", str(tmp_path)]
    command += [f"--config=line-length={width}"]
    command += [f"--config=format.quote-style='{QUOTES[quote]}'"]
    done = children.run(command, timeout=60)
    assert not done.stdout, done.stdout
    assert f"{len(ALL)} files already formatted" in done.stderr


@pytest.mark.parametrize("typed", [True, False])
def test_no_line_is_longer_than_a_narrow_project_allows(typed: bool) -> None:
    for helpers in ALL:
        text = emit(helpers, Style(79, "    ", '"', typed))
        assert [line for line in text.splitlines() if len(line) > 79] == []


def test_no_helper_is_longer_than_thirty_lines() -> None:
    for asked in (*TEXTS, *map(HelperRequest, catalogue())):
        for part in emit([asked]).split("\n\n\n")[1:]:
            assert len([line for line in part.splitlines() if line.strip()]) <= 30, part
