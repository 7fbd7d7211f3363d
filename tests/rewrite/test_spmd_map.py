"""`spmd_map`, run as it is written into projects: it does what `jax.pmap` does."""

from __future__ import annotations

import ast
import gc
import itertools
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_array_equal

import shardlift
from shardlift.rewrite.call_format import Style
from shardlift.rewrite.helpers import emit
from shardlift.rewrite.spmd_map import ANY_CALL, Feature, request
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


def spmd_map(*features: Feature, style: Style = STYLES[0]) -> Callable[..., Any]:
    """The helper with these features, from the text that is written."""
    names: dict[str, Any] = {"__name__": "written"}
    exec(emit([request(features, "i")], style), names)
    return names["spmd_map"]


def total(x: Any, w: Any) -> Any:
    return {"sum": jax.lax.psum(x * w, "i"), "mean": jax.lax.pmean(x.sum(), "i")}


CALLS: dict[str, tuple[set[Feature], dict[str, Any], Callable[..., Any], tuple[Any, ...]]] = {
    "leading": (set(), {}, total, (X, X)),
    "donated": ({Feature.DONATE}, {"donate_argnums": (0,)}, total, (X, X)),
    "in_axes": ({Feature.AXES}, {"in_axes": (0, 1)}, lambda x, y: x * y, (X, X.T)),
    "one axis for all": ({Feature.AXES}, {"in_axes": 1}, lambda x, y: x * y, (X.T, X.T)),
    "unmapped": ({Feature.AXES}, {"in_axes": (0, None)}, total, (X, W)),
    "unmapped number": ({Feature.AXES}, {"in_axes": (0, None)}, total, (X, 3)),
    "tree of axes": (
        {Feature.AXES},
        {"in_axes": ({"x": 0, "w": None}, (0, None))},
        lambda d, p: (d["x"] * d["w"] + p[0], p[1]),
        ({"x": X, "w": W}, (X, W)),
    ),
    "out_axes": ({Feature.OUT_AXES}, {"out_axes": 1}, lambda x: x, (X,)),
    "tree of out_axes": (
        {Feature.OUT_AXES},
        {"out_axes": (0, None)},
        lambda x: (x, jax.lax.psum(x, "i")),
        (X,),
    ),
    "static": (
        {Feature.STATIC},
        {"static_broadcasted_argnums": (1,)},
        lambda x, word, n: x * n if word == "mul" else x + n,
        (X, "mul", X),
    ),
    "static and unmapped": (
        {Feature.STATIC, Feature.AXES},
        {"static_broadcasted_argnums": 1, "in_axes": (0, None, None)},
        lambda x, word, n: x * n if word == "mul" else x + n,
        (X, "mul", W),
    ),
    "static, without an axis": (
        {Feature.STATIC, Feature.AXES},
        {"static_broadcasted_argnums": 2, "in_axes": (0, None)},
        lambda x, n, word: x * n if word == "mul" else x + n,
        (X, W, "mul"),
    ),
    "devices": ({Feature.DEVICES}, {"devices": None}, total, (X[:4], X[:4])),
    "backend": ({Feature.BACKEND}, {"backend": "cpu"}, total, (X, X)),
    "axis_size": ({Feature.AXIS_SIZE}, {"axis_size": 8}, total, (X, X)),
    "fewer rows than devices": (set(), {}, total, (X[:3], X[:3])),
    "one row": (set(), {}, total, (X[:1], X[:1])),
    "keys": (set(), {}, jax.random.normal, (jax.random.split(jax.random.key(0), 8),)),
    "old keys": (set(), {}, jax.random.normal, (jax.random.split(jax.random.PRNGKey(0), 8),)),
    "nothing mapped in one argument": (set(), {}, lambda x, tree: x, (X, {})),
}
# What is left out and what is not: the answer is the same.
MORE = [set(), {Feature.REMAPPED}, {Feature.AXES}, {Feature.STATIC}, set(Feature)]


@pytest.mark.parametrize("name", CALLS)
def test_it_computes_what_pmap_computes(name: str) -> None:
    needed, options, function, args = CALLS[name]
    if name == "devices":
        options = {"devices": jax.devices()[4:]}
    expected = jax.pmap(function, "i", **options)(*jax.tree.map(copied, args))
    for more, style in zip(MORE, itertools.cycle(STYLES)):
        mapped = spmd_map(*needed, *more, style=style)(function, "i", **options)
        got = mapped(*jax.tree.map(copied, args))
        assert jax.tree.map(_kind, got) == jax.tree.map(_kind, expected), more
        jax.tree.map(assert_array_equal, got, expected)


def copied(x: Any) -> Any:
    """Its own array, where it is one that may be donated."""
    return jnp.copy(x) if isinstance(x, jax.Array) else x


def _kind(x: jax.Array) -> tuple[Any, ...]:
    return x.shape, x.dtype, x.weak_type, x.sharding.device_set, x.sharding.is_fully_replicated


BOTH = pytest.mark.parametrize("features", [[], [Feature.AXES]])
BAD = {"a number": (3.0,), "an array without rows": (jnp.array(3.0),), "nothing": ({},)}


@pytest.mark.parametrize("args", BAD.values(), ids=list(BAD))
@BOTH
def test_arguments_without_rows_are_the_error_that_they_were(
    features: list[Feature], args: tuple[Any, ...]
) -> None:
    for mapped in (shardlift.pmap, spmd_map(*features)):  # jax.pmap 0.12: IndexError
        with pytest.raises(ValueError):  # noqa: PT011
            mapped(lambda x: x, "i")(*args)
    with pytest.raises(ValueError, match="shard_map"):
        spmd_map(*features)(lambda x, y: x, "i")(3.0, X)


@BOTH
def test_arguments_by_name_are_sliced_and_not_donated(features: list[Feature]) -> None:
    mapped = spmd_map(Feature.DONATE, *features)(lambda x, y: x + y, "i", donate_argnums=(0, 1))
    x, y = jax.device_put((X, X), jax.NamedSharding(jax.make_mesh((8,), ("i",)), jax.P("i")))
    assert_array_equal(mapped(x, y=y), 2 * X)
    assert x.is_deleted()
    assert not y.is_deleted()


@pytest.mark.parametrize("static", [(), (2,)])
def test_what_is_not_sliced_may_lie_on_any_device(static: tuple[int, ...]) -> None:
    options = {"in_axes": (0, None), "static_broadcasted_argnums": static}
    mapped = spmd_map(Feature.AXES, Feature.STATIC)(lambda *a: total(*a[:2]), "i", **options)
    more = ("word",) * len(static)
    rows = jax.device_put(X, jax.devices()[3])
    for x, device in [(X, jax.devices()[0]), (rows, jax.devices()[5])]:
        assert_array_equal(mapped(x, jax.device_put(W, device), *more)["sum"][0], (X * W).sum(0))


def test_an_error_of_the_function_is_its_own() -> None:
    calls: list[int] = []

    def fails(x: Any) -> Any:
        calls.append(1)
        raise ValueError("no")

    with pytest.raises(ValueError, match="^no\\b"):
        spmd_map(Feature.AXES)(fails)(X)
    assert calls == [1]


def test_no_device_is_asked_for_before_the_first_call(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        for name in ("devices", "local_devices", "process_count", "device_count"):
            patch.setattr(jax, name, None)
        mapped = [spmd_map(*more)(total, "i") for more in MORE]
    for one in mapped:
        one(X, X)


class Model:
    def step(self, x: Any) -> Any:
        return x + 1


@pytest.mark.parametrize("options", [{}, {"devices": jax.devices(), "donate_argnums": [0]}])
def test_a_function_that_is_mapped_again_is_traced_once(options: dict[str, Any]) -> None:
    traced: list[int] = []
    remapped = spmd_map(Feature.REMAPPED, Feature.DEVICES, Feature.DONATE)

    def closure(x: Any) -> Any:
        traced.append(1)
        return x

    for _ in range(3):
        remapped(closure, **options)(X)
    assert traced == [1]


def test_a_function_that_died_is_not_kept_for_ever() -> None:
    remapped, model = spmd_map(Feature.REMAPPED), Model()
    remapped(model.step)(X)
    seen = weakref.ref(model)
    del model
    for _ in range(64):
        remapped(Model().step)
    gc.collect()
    assert seen() is None


def test_a_training_step_is_compiled_once() -> None:
    """Placing helpers use the axis name of the sites, so that all arrays have the same type."""
    names: dict[str, Any] = {"__name__": "written"}
    exec(emit([request([Feature.DONATE], "batch"), HelperRequest("replicate")]), names)
    traced: list[int] = []

    def step(state: Any, batch: Any) -> Any:
        traced.append(1)
        return {"w": state["w"] - jax.lax.pmean(batch, "batch").sum()}

    mapped = names["spmd_map"](step, "batch", donate_argnums=(0,))
    state = names["replicate"]({"w": np.zeros(3, np.float32)})
    for _ in range(3):
        state = mapped(state, X)
    assert traced == [1]


@BOTH
def test_under_other_transformations(features: list[Feature]) -> None:
    mapped = spmd_map(Feature.LOWERED, *features)(lambda x: x**2, "i")
    assert_array_equal(jax.jit(mapped)(X), X**2)
    assert_array_equal(jax.grad(lambda x: mapped(x).sum())(X), 2 * X)
    assert_array_equal(jax.vmap(mapped)(np.stack([X, X])), np.stack([X, X]) ** 2)
    assert_array_equal(mapped.lower(X).compile()(X), X**2)


@BOTH
def test_static_arguments_that_are_equal_differ_by_type(features: list[Feature]) -> None:
    mapped = spmd_map(Feature.STATIC, *features)(
        lambda x, n: jnp.full(2, n), "i", static_broadcasted_argnums=1
    )
    assert [mapped(X, n).dtype for n in (1, 1.0, True)] == [jnp.int32, jnp.float32, jnp.bool]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("features", [set(), {Feature.DONATE}, ANY_CALL, set(Feature)])
def test_the_text_is_in_the_style_of_the_project(style: Style, features: set[Feature]) -> None:
    text = emit([request(features, "batch"), *map(HelperRequest, NAMES)], style)
    assert ("->" in text) == style.typed
    names = {n.name for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)}
    assert {name for name in names if not name.startswith("_")} == {
        "spmd_map",
        *NAMES,
        "device_put_replicated",
        "first_row",
    }


FORMATTED = [
    set(),
    {Feature.DONATE, Feature.STATIC},
    {Feature.DEVICES, Feature.BACKEND},
    {Feature.AXES},
    {Feature.AXES, Feature.DONATE, Feature.LOWERED},
    {Feature.AXES, Feature.STATIC},
    ANY_CALL,
    set(Feature),
]


@pytest.mark.parametrize("typed", [True, False])
@pytest.mark.parametrize("width", [80, 88, 100, 120])
def test_a_formatter_leaves_the_text_as_it_is(width: int, typed: bool, tmp_path: Path) -> None:
    quote = "'" if typed else '"'
    for k, features in enumerate(FORMATTED):
        helpers = [request(features, "batch"), *map(HelperRequest, NAMES)]
        text = emit(helpers, Style(width, "    ", quote, typed))
        (tmp_path / f"helpers_{k}.py").write_text(text)
    command = [sys.executable, "-m", "ruff", "format", "--isolated", "--diff", str(tmp_path)]
    command += [f"--config=line-length={width}"]
    command += [f"--config=format.quote-style='{QUOTES[quote]}'"]
    done = children.run(command, timeout=60)
    assert not done.stdout, done.stdout
    assert f"{len(FORMATTED)} files already formatted" in done.stderr


@pytest.mark.parametrize("typed", [True, False])
def test_no_line_is_longer_than_a_narrow_project_allows(typed: bool) -> None:
    for features in FORMATTED:
        helpers = [request(features, "batch"), *map(HelperRequest, NAMES)]
        text = emit(helpers, Style(79, "    ", '"', typed))
        assert [line for line in text.splitlines() if len(line) > 79] == []


@pytest.mark.parametrize(
    ("features", "limit"),
    [
        ([Feature.DONATE], 17),
        ([Feature.DONATE, Feature.STATIC], 27),
        ([Feature.AXES], 33),
        ([Feature.AXES, Feature.DONATE], 35),
    ],
)
def test_the_text_is_short(features: list[Feature], limit: int) -> None:
    text = emit([request(features, "batch")])
    body = text[text.index("def spmd_map(") :].splitlines()
    assert len([line for line in body if line]) <= limit
