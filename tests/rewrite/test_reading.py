"""The reader that is written into projects: `first_row(x)` is `x[0]` of every value.

Of values in this process, and in programs that are run before and after their migration.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

from shardlift.rewrite.helper_texts.reading import first_row, unreplicate  # noqa: E402
from tests.fuzz.migrate import compare  # noqa: E402

NUMBERS = np.arange(24, dtype=np.float32).reshape(8, 3) + 1


class Pair(NamedTuple):
    a: Any
    b: Any


class Doubled:
    def __getitem__(self, index: int) -> tuple[str, int]:
        return "row", 2 * index


def _placed(shape: tuple[int, ...], spec: Any, order: slice = slice(None), devices: int = 8) -> Any:
    """Numbers on a mesh of two axes, or of one if there are fewer devices."""
    rows = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    chosen = np.array(jax.devices()[:devices][order])
    names = ("a", "b")[: 2 if devices == 8 else 1]
    mesh = jax.sharding.Mesh(chosen.reshape((2, 4) if devices == 8 else (devices,)), names)
    return jax.device_put(rows, jax.NamedSharding(mesh, spec))


def _deleted() -> Any:
    x = _placed((8, 3), jax.P(("a", "b")))
    x.delete()
    return x


def _pmapped(f: Callable[[Any], Any], rows: Any = NUMBERS) -> Any:
    return jax.pmap(f)(rows)


# Made when a test wants them, not when tests are collected.
VALUES: dict[str, Callable[[], Any]] = {
    "rows": lambda: _pmapped(lambda x: x * 2),
    "weak": lambda: _pmapped(lambda x: 2.0),
    "bfloat16": lambda: _pmapped(lambda x: x.astype(jnp.bfloat16)),
    "empty rows": lambda: _pmapped(lambda x: x[:0]),
    "keys": lambda: jax.random.split(jax.random.key(3), 8),
    "keys on devices": lambda: _pmapped(jax.random.key, np.arange(8)),
    "a pmap of some devices": lambda: _pmapped(lambda x: x * 2, NUMBERS[:3]),
    "devices in another order": lambda: _placed((8, 3), jax.P(("b", "a")), slice(None, None, -1)),
    "two rows per device": lambda: _placed((16, 3), jax.P(("a", "b"))),
    "rows on some devices": lambda: _placed((2, 3), jax.P("a")),
    "rows split too": lambda: _placed((2, 8), jax.P("a", "b")),
    "split along another axis": lambda: _placed((2, 8), jax.P(None, ("a", "b"))),
    "replicated": lambda: _placed((8, 3), jax.P()),
    "on another device": lambda: jax.device_put(NUMBERS, jax.devices()[5]),
    "no rows": lambda: jnp.zeros((0, 3)),
    "0-d": lambda: jnp.float32(3),
    "deleted": _deleted,
    "numpy": lambda: NUMBERS,
    "0-d numpy": lambda: np.array(3),
    "tuple": lambda: (_pmapped(lambda x: x), 2),
    "list": lambda: [_pmapped(lambda x: x)],
    "NamedTuple": lambda: _pmapped(lambda x: Pair(x, -x)),
    "dict with the key 0": lambda: {0: "zero"},
    "dict without it": lambda: {"a": NUMBERS},
    "a class with rows": Doubled,
    "None": lambda: None,
}  # fmt: skip


def outcome(read: Callable[[], Any]) -> tuple[str, ...]:
    """What a read gives: its type, its elements, its text; or its error."""
    try:
        x = read()
    except Exception as error:
        return type(error).__name__, str(error)
    if isinstance(x, jax.Array):
        data = jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x
        return "Array", str(x.aval), np.asarray(data).tobytes().hex(), repr(x), str(x)
    return type(x).__name__, repr(x), str(x)


@pytest.mark.parametrize("kind", VALUES)
def test_it_is_the_first_element_of_every_value(kind: str) -> None:
    x = VALUES[kind]()
    assert outcome(lambda: first_row(x)) == outcome(lambda: x[0])


ROWS = [kind for kind in VALUES if kind in ("rows", "weak", "keys on devices")]


@pytest.mark.parametrize("kind", ROWS)
def test_rows_are_read_from_their_device(kind: str) -> None:
    x = VALUES[kind]()
    with jax.transfer_guard("disallow"):
        row = first_row(x)
    assert row.devices() == {jax.devices()[0]}
    assert x[0].devices() == set(jax.devices())


@pytest.mark.parametrize(
    "transform", [jax.make_jaxpr, lambda f: jax.jit(jax.vmap(f)), jax.jacobian]
)
def test_it_is_an_index_where_jax_traces(transform: Callable[..., Any]) -> None:
    x = _pmapped(lambda x: x * 2)
    assert str(transform(first_row)(x)) == str(transform(lambda x: x[0])(x))


def test_a_tree_is_read_leaf_by_leaf() -> None:
    tree = _pmapped(lambda x: {"a": (x, -x), "b": None}) | {"c": NUMBERS}
    got, wanted = unreplicate(tree), jax.tree.map(lambda x: x[0], tree)
    assert jax.tree.structure(got) == jax.tree.structure(wanted)
    assert [outcome(lambda x=x: x) for x in jax.tree.leaves(got)] == [
        outcome(lambda x=x: x) for x in jax.tree.leaves(wanted)
    ]


# ---- programs

HEAD = """\
import functools
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

x = np.arange(24.0, dtype=np.float32).reshape(8, 3) + 1
w = jnp.stack([jnp.ones(3)] * 8)
"""
TWO = "first = jax.pmap(lambda x: (x, x * 10))\nsecond = jax.pmap(lambda x: jnp.sin(x))\n"
SHOW = "print(np.asarray(out[0]))\n"
FLOWS = {
    "a parameter that is a tuple": f"out = jax.pmap(lambda p: p * 2)((x, x + 1))\n{SHOW}",
    "an output that is changed elsewhere": "def log(m):\n    m['a'] = (x, -x)\n"
    "out = jax.pmap(lambda x: {'a': x / 2})(x)\nlog(out)\nprint(np.asarray(out['a'][0]))\n",
    "bound in a branch": f"{TWO}out = first(x)\nif x[0, 0] > 5:\n    out = second(x)\n{SHOW}",
    "bound by a function": f"{TWO}out = first(x)\ndef later():\n    global out\n"
    f"    out = second(x)\nlater()\n{SHOW}",
    "starred": "f = jax.pmap(lambda x: (x, -x, (x / 2, x / 3)))\na, *rest = f(x)\n"
    "*_, last = f(x)\nprint(a[0], np.asarray(rest[0]), np.asarray(last[0]))\n",
    "rows as a list": "out = jax.pmap(lambda x: lax.psum(x.sum(), 'i'), 'i')(w)\nrows = list(out)\n"
    "print(float(rows[0]), float(list(out)[0]), len(tuple(out)))\n",
    "a decorator that adds": "def with_extra(f):\n    return lambda x: (f(x), x)\n"
    f"@with_extra\n@jax.pmap\n@with_extra\ndef f(x):\n    return x / 2\nout = f(x)\n{SHOW}",
    "a wrapper of pmap": "def spread(f, **options):\n    return jax.pmap(f, **options)\n"
    f"out = spread(lambda x: (x / 2, x))(x)\n{SHOW}"
    "print(spread(lambda x: x / 2, axis_name='i')(x)[0])\n",
    "a method": "class T:\n    def __init__(self):\n        self.p = jax.pmap(self.step)\n"
    "    def step(self, x):\n        return x / 2\n    def run(self):\n        out = self.p(x)\n"
    f"        {SHOW}class U(T):\n    def step(self, x):\n        return x, -x\n"
    "T().run()\nU().run()\n",
    "a tree map that prints": "def first(v):\n    print(v.shape)\n    return v[0]\n"
    "print(jax.tree.map(first, jax.pmap(lambda x: (x, -x))(x)))\n",
    "a first_row of its own": "def first_row(t):\n    return 'mine'\n"
    f"out = jax.pmap(lambda x: x / 2)(x)\n{SHOW}print(first_row(out))\n",
    "state and metrics": "@functools.partial(jax.pmap, axis_name='i', donate_argnums=0)\n"
    "def step(w, x):\n    def loss_fn(w):\n        return jnp.mean((w * x) ** 2)\n"
    "    loss, grad = jax.value_and_grad(loss_fn)(w)\n    grad = lax.pmean(grad, 'i')\n"
    "    loss = lax.pmean(loss, axis_name='i')\n    return w - 0.1 * grad, (loss, loss * 2)\n"
    "for k in range(2):\n    w, metrics = step(w, x)\n    loss, double = metrics\n"
    "    print(k, np.asarray(metrics[0]), metrics[1][0], loss[0], f'{double[0]:.4f}')\n"
    "print(w[0], jax.tree.map(lambda v: v[0], w))\n",
}


@pytest.mark.slow
@pytest.mark.usefixtures("ranks_are_promoted")
@pytest.mark.parametrize("name", FLOWS)
def test_programs_print_the_same_before_and_after(name: str, tmp_path: Path) -> None:
    counts = Counter[str]()
    assert compare(HEAD + FLOWS[name], tmp_path / "program.py", counts) == []
    assert counts["programs"] == 1
