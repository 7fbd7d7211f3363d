"""Programs that print parts of what pmapped functions return: `out[0]` in all its meanings.

`FORMS` are written by hand, one for each way in which an index was, or could be, misread.
`generated(seed)` makes one at random: a structure, a way to return it, and ways to read it.
"""

from __future__ import annotations

import random
from collections.abc import Callable

_HEAD = """\
import contextlib
import functools
from typing import NamedTuple
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

x = np.arange(24.0, dtype=np.float32).reshape(8, 3) + 1
"""
_TWO = "first = jax.pmap(lambda x: (x, x * 10))\nsecond = jax.pmap(lambda x: jnp.sin(x))\n"

_BODIES = {
    "the report": "f = jax.pmap(lambda x: (x, x * 10))\nout = f(x)\nprint(np.asarray(out[0]))\n",
    "device_get of an element": "f = jax.pmap(lambda x: (x, -x))\nout = f(x)\n"
    "print(jax.device_get(out[0]))\n",
    "shape of an element": "f = jax.pmap(lambda x: (x, -x))\nout = f(x)\nprint(out[0].shape)\n",
    "dtype and item": "f = jax.pmap(lambda x: (x, x > 1))\nout = f(x)\nprint(out[0].dtype)\n"
    "print(f(x)[0].block_until_ready()[3, 1].item())\n",
    "mean of an element": "f = jax.pmap(lambda x: (x, -x))\nout = f(x)\n"
    "print(np.asarray(out[0]).mean())\n",
    "pmean of a tuple": "def f(x):\n    return lax.pmean((x, x * 2), 'i')\n"
    "out = jax.pmap(f, 'i')(x)\nprint(np.asarray(out[0]))\n",
    "tuples added": "f = jax.pmap(lambda x: (x,) + (x * 2,))\nout = f(x)\n"
    "print(np.asarray(out[0]))\n",
    "a tuple repeated": "f = jax.pmap(lambda x: (x,) * 2)\nout = f(x)\nprint(np.asarray(out[0]))\n",
    "a parameter that is a tuple": "f = jax.pmap(lambda p: p * 2)\nout = f((x, x + 1))\n"
    "print(len(out), np.asarray(out[0]))\n",
    "parameters that are tuples": "f = jax.pmap(lambda p, q: p + q)\nout = f((x,), (-x,))\n"
    "print(len(out), np.asarray(out[0]))\n",
    "slogdet": "f = jax.pmap(lambda x: jnp.linalg.slogdet(x[:, None] * x + jnp.eye(3)))\n"
    "out = f(x)\nprint(np.asarray(out[0]))\n",
    "modf": "f = jax.pmap(lambda x: jnp.modf(x / 2))\nout = f(x)\nprint(np.asarray(out[0]))\n",
    "split": "f = jax.pmap(lambda x: jnp.split(x, 3))\nout = f(x)\nprint(np.asarray(out[0]))\n",
    "where of one": "f = jax.pmap(lambda x: jnp.where(x > 0, size=3))\nout = f(x)\n"
    "print(np.asarray(out[0]))\n",
    "average with its weights": "f = jax.pmap(lambda x: jnp.average(x, returned=True))\n"
    "out = f(x)\nprint(np.asarray(out[0]))\n",
    "top_k": "f = jax.pmap(lambda x: lax.top_k(x, 2))\nout = f(x)\nprint(np.asarray(out[0]))\n",
    "value_and_grad": "f = jax.pmap(jax.value_and_grad(lambda x: (x**2).sum()))\nout = f(x)\n"
    "print(np.asarray(out[0]))\n",
    "a scan": "f = jax.pmap(lambda x: lax.scan(lambda c, v: (c + v, c), 0.0, x))\nout = f(x)\n"
    "print(np.asarray(out[0]))\n",
    "metrics that are a tuple": "def step(s, x):\n    return s + 1, (x.mean(), x.max())\n"
    "state, metrics = jax.pmap(step)(x, x)\nprint(np.asarray(metrics[0]).mean())\n",
    "metrics that are reduced": "def step(s, x):\n    metrics = (x.mean(), x.max())\n"
    "    return s + 1, lax.pmean(metrics, 'i')\n"
    "state, metrics = jax.pmap(step, axis_name='i')(x, x)\nprint(np.asarray(metrics[0]))\n",
    "metrics that are a dict": "def step(s, x):\n"
    "    metrics = {'loss': jnp.mean(x), 'n': (x, -x)}\n"
    "    return s / 2, lax.pmean(metrics, 'i')\n"
    "state, m = jax.pmap(step, 'i')(x, x)\n"
    "print(m['loss'][0], np.asarray(m['n'][0]), f\"{m['loss'][0]:.3f}\", state[0])\n",
    "metrics that are a NamedTuple": "class M(NamedTuple):\n    a: object\n    b: object\n"
    "    def mean(self):\n        return M(self.a.mean(), self.b.mean())\n"
    "out = jax.pmap(lambda m: m.mean())(M(x, -x))\n"
    "print(np.asarray(out[0]), out.b[0], out[0][0])\n",
    "a list": "def f(x):\n    outs = []\n    for k in range(2):\n        outs.append(x * k)\n"
    "    return outs\nout = jax.pmap(f)(x)\nprint(np.asarray(out[0]))\n",
    "a list that grows": "def f(x):\n    out = [x / 2]\n    out[0] = (x, x)\n    return out\n"
    "out = jax.pmap(f)(x)\nprint(np.asarray(out[0][0]))\n",
    "a dict that is changed": "def f(x):\n    d = {'a': x / 2}\n    d['a'] = (x, -x)\n"
    "    return d\nout = jax.pmap(f)(x)\nprint(np.asarray(out['a'][0]))\n",
    "an output that is changed": "f = jax.pmap(lambda x: {'a': x / 2})\nout = f(x)\n"
    "out['a'] = (x, -x)\nprint(np.asarray(out['a'][0]))\n",
    "an output that is changed elsewhere": "def log(m):\n    m['a'] = (x, -x)\n"
    "f = jax.pmap(lambda x: {'a': x / 2})\nout = f(x)\nlog(out)\nprint(np.asarray(out['a'][0]))\n",
    "a tuple of one": "f = jax.pmap(lambda x: (x / 2,))\nout = f(x)\n"
    "print(np.asarray(out[0]), out[0][0])\n",
    "a tuple in a tuple": "f = jax.pmap(lambda x: ((x / 2, x), x))\nout = f(x)\n"
    "print(np.asarray(out[0][0]), out[0][0][0], out[1][0])\n",
    "either": "def f(x, pair):\n    if pair:\n        return x / 2, x\n    return x / 2\n"
    "p = jax.pmap(f, static_broadcasted_argnums=1)\nfor pair in (True, False):\n"
    "    out = p(x, pair)\n    print(np.asarray(out[0]))\n",
    "either, in one expression": "p = jax.pmap(lambda x, t: (x / 2, x) if t else x / 2,\n"
    "             static_broadcasted_argnums=1)\nout = p(x, True)\nprint(np.asarray(out[0]))\n",
    "one in three ways": "def f(x, n):\n    if n == 0:\n        return x / 2, 1.0\n    y = x / n\n"
    "    return y, {'y': y}\np = jax.pmap(f, static_broadcasted_argnums=1)\n"
    "for n in (0, 1):\n    a, b = p(x, n)\n    print(a[0], b[0] if n == 0 else b['y'][0])\n",
    "rebound": _TWO + "out = second(x)\nout = first(x)\nprint(np.asarray(out[0]))\n",
    "rebound to an array": _TWO + "out = first(x)\nout = second(x)\nprint(np.asarray(out[0]))\n",
    "bound in a branch": _TWO + "out = first(x)\nif x[0, 0] > 5:\n    out = second(x)\n"
    "print(np.asarray(out[0]))\n",
    "bound in a loop": _TWO + "out = second(x)\nfor k in range(2):\n    print(np.asarray(out[0]))\n"
    "    out = first(x)\n",
    "bound in the other branch": _TWO + "out = second(x)\nfor k in range(2):\n    if k == 0:\n"
    "        out = first(x)\n    else:\n        print(np.asarray(out[0]))\n",
    "bound in a try": _TWO + "out = first(x)\ntry:\n    out = second(int('a'))\n"
    "except ValueError:\n    pass\nprint(np.asarray(out[0]))\n",
    "bound in a with": _TWO + "out = first(x)\nwith contextlib.suppress(ValueError):\n"
    "    out = second(int('a'))\nprint(np.asarray(out[0]))\n",
    "bound in an and": _TWO + "out = first(x)\nx[0, 0] > 5 and (out := second(x)) is None\n"
    "print(np.asarray(out[0]))\n",
    "bound after a function that reads it": _TWO + "out = first(x)\ndef show():\n"
    "    print(np.asarray(out[0]))\nshow()\nout = second(x)\nshow()\n",
    "bound by a function": _TWO + "out = first(x)\ndef later():\n    global out\n"
    "    out = second(x)\nprint(np.asarray(out[0]))\n",
    "the function bound anew": "f = jax.pmap(lambda x: (x, x))\ndef show():\n    out = f(x)\n"
    "    print(np.asarray(out[0]))\nshow()\nf = jax.pmap(lambda x: x / 2)\nshow()\n",
    "starred": "f = jax.pmap(lambda x: (x, -x, (x / 2, x / 3)))\na, *rest = f(x)\n"
    "print(a[0].shape, np.asarray(rest[0]))\n",
    "after a star": "f = jax.pmap(lambda x: (x / 2, x / 3, x / 4, (x, x)))\n*rest, last = f(x)\n"
    "print(np.asarray(last[0]))\n",
    "a star in what is returned": "def f(x):\n    pair = x, -x\n    return *pair, (x / 2, x)\n"
    "a, b, c = jax.pmap(f)(x)\nprint(a[0], np.asarray(c[0]))\n",
    "a star in what is assigned": "f = jax.pmap(lambda x: x / 2)\npair = (x, -x), (x, x)\n"
    "a, b, c = *pair, f(x)\nprint(np.asarray(b[0]), np.asarray(c)[0])\n",
    "unpacked rows": "f = jax.pmap(lambda x: x / 2)\na, b, *others = f(x)\nprint(a[0], b)\n",
    "a decorator that adds": "def with_extra(f):\n    def g(x):\n        return f(x), x\n"
    "    return g\n@jax.pmap\n@with_extra\ndef f(x):\n    return x / 2\nout = f(x)\n"
    "print(np.asarray(out[0]))\n",
    "a decorator around pmap": "def with_extra(f):\n    def g(x):\n        return f(x), x\n"
    "    return g\n@with_extra\n@jax.pmap\ndef f(x):\n    return x / 2\nout = f(x)\n"
    "print(np.asarray(out[0]))\n",
    "a decorated helper": "def twice(f):\n    return lambda x: (f(x), f(x))\n"
    "@twice\ndef half(x):\n    return x / 2\nout = jax.pmap(lambda x: half(x))(x)\n"
    "print(np.asarray(out[0]))\n",
    "a wrapper that drops": "def wrapped(f):\n    g = jax.pmap(lambda x: (x / 2, f(x)))\n"
    "    def call(x):\n        a, b = g(x)\n        return b\n    return call\n"
    "out = wrapped(lambda x: (x, -x))(x)\nprint(np.asarray(out[0]))\n",
    "a wrapper of pmap": "def spread(f, **options):\n    return jax.pmap(f, **options)\n"
    "out = spread(lambda x: (x / 2, x))(x)\nprint(np.asarray(out[0]))\n"
    "print(spread(lambda x: x / 2, axis_name='i')(x)[0])\n",
    "a partial": "def f(k, x):\n    return x * k, x\nout = jax.pmap(functools.partial(f, 2))(x)\n"
    "print(np.asarray(out[0]))\n",
    "a partial of an array": "def f(k, x):\n    return x / k\n"
    "out = jax.pmap(functools.partial(f, 2))(x)\nprint(np.asarray(out[0]), out[0].shape)\n",
    "a method": "class T:\n    def __init__(self):\n        self.p = jax.pmap(self.step)\n"
    "    def step(self, x):\n        return x / 2\n    def run(self):\n        out = self.p(x)\n"
    "        print(np.asarray(out[0]))\nclass U(T):\n    def step(self, x):\n"
    "        return x, -x\nT().run()\nU().run()\n",
    "a nested function": "def make(k):\n    def inner(x):\n        return x / k\n"
    "    return jax.pmap(inner)\nout = make(3)(x)\nprint(out[0], np.asarray(out[0]))\n",
    "a nested function with two": "def make(h):\n    return jax.pmap(lambda x: h(x))\n"
    "out = make(lambda x: (x, -x))(x)\nprint(np.asarray(out[0]))\n",
    "a function that calls one": "def half(x):\n    return x / 2\ndef pair(x):\n"
    "    return half(x), x\na = jax.pmap(lambda x: half(x))(x)\n"
    "b = jax.pmap(lambda x: pair(x))(x)\n"
    "print(a[0], np.asarray(b[0]), np.asarray(a[0]), b[0][0])\n",
    "a function that calls itself": "def f(x, n=2):\n"
    "    return (x, x) if n == 0 else f(x / 2, n - 1)\n"
    "out = jax.pmap(f)(x)\nprint(np.asarray(out[0]))\n",
    "no return": "def f(x):\n    if x.ndim == 1:\n        return x / 2\nout = jax.pmap(f)(x)\n"
    "print(np.asarray(out[0]))\n",
    "has_aux": "def loss(w, x):\n    y = (w * x).sum()\n    return y, (y, x)\n"
    "def f(w, x):\n    (l, aux), g = jax.value_and_grad(loss, has_aux=True)(w, x)\n"
    "    return lax.pmean(l, 'i'), aux, g\n"
    "l, aux, g = jax.pmap(f, 'i')(x, x)\n"
    "print(l[0], float(l[0]), np.asarray(aux[0]), aux[1][0], np.asarray(g[0]))\n",
    "an array": "f = jax.pmap(lambda x: jnp.sin(x))\nout = f(x)\n"
    "print(out[0], np.asarray(out[0]), jax.device_get(out[0]), out[0].shape, f'{out[0]}')\n",
    "an array by a call": "f = jax.pmap(lambda x: x * 2)\nout = f(np.asarray(x))\n"
    "print(np.asarray(out[0]))\n",
    "two calls": "f = jax.pmap(lambda v: v * 2)\na = f(np.asarray(x))\nb = f((x, -x))\n"
    "print(np.asarray(a[0]), np.asarray(b[0]))\n",
    "a tree map": "f = jax.pmap(lambda x: {'a': (x, -x), 'b': [x]})\n"
    "print(jax.tree.map(lambda v: v[0], f(x)))\n",
    "a tree map of another": "f = jax.pmap(lambda x: (x, -x))\ndef g(y):\n"
    "    return jax.tree.map(lambda v: y[0], f(x))\nprint(g([3.0]))\n",
    "a tree map that prints": "f = jax.pmap(lambda x: (x, -x))\ndef first(v):\n"
    "    print(v.shape)\n    return v[0]\nprint(jax.tree.map(first, f(x)))\n",
    "a number": "f = jax.pmap(lambda x: x.sum())\nout = f(x)\n"
    "print(float(out[0]), int(out[0]), f'{out[0]:.2f}', f'{out[0]!r:>20}', out[0].item())\n",
    "rows as a list": "f = jax.pmap(lambda x: lax.psum(x.sum(), 'i'), 'i')\n"
    "out = f(jnp.stack([x[0]] * jax.device_count()))\nrows = list(out)\n"
    "print(float(rows[0]), float(list(out)[0]), len(tuple(out)))\n",
    "state and metrics": "@functools.partial(jax.pmap, axis_name='i', donate_argnums=0)\n"
    "def step(w, x):\n    def loss_fn(w):\n        return jnp.mean((w * x) ** 2)\n"
    "    loss, grad = jax.value_and_grad(loss_fn)(w)\n    grad = lax.pmean(grad, 'i')\n"
    "    loss = lax.pmean(loss, axis_name='i')\n    return w - 0.1 * grad, (loss, loss * 2)\n"
    "w = jnp.stack([jnp.ones(3)] * jax.device_count())\n"
    "for k in range(2):\n    w, metrics = step(w, x)\n    loss, double = metrics\n"
    "    print(k, np.asarray(metrics[0]), metrics[1][0], loss[0], f'{double[0]:.4f}')\n"
    "print(w[0], jax.tree.map(lambda v: v[0], w))\n",
    "a reduced tuple": "def f(w, x):\n    return lax.pmean((w.sum(), x.sum()), 'i')\n"
    "w = jnp.stack([jnp.ones(3)] * jax.device_count())\nout = jax.pmap(f, 'i')(w, x)\n"
    "print(np.asarray(out[0]), out[0][0], out[1].shape)\n",
    "a reduced array": "def f(w, x):\n    return lax.pmean((w * x).sum() / 2, 'i')\n"
    "w = jnp.stack([jnp.ones(3)] * jax.device_count())\nout = jax.pmap(f, 'i')(w, x)\n"
    "print(out[0], float(out[0]))\n",
    "a reduced tree": "def f(w, x):\n    return lax.pmean((w, {'x': x}), 'i')\n"
    "w = jnp.stack([jnp.ones(3)] * jax.device_count())\nout = jax.pmap(f, 'i')(w, x)\n"
    "print(np.asarray(out[0]), out[1]['x'][0])\n",
}
FORMS = {name: _HEAD + body for name, body in _BODIES.items()}


# ---- at random

_LEAVES = (
    "x * 2", "x / 3", "jnp.sum(x)", "lax.pmean(x, 'i')", "x.max()", "jnp.sin(x)", "w * 3 + x", "w",
    "lax.psum(w.sum(), 'i')", "half(x)", "-w",
)  # fmt: skip
_EQUAL = ("w", "-w", "w * 2", "lax.pmean(x, 'i')", "lax.psum(w.sum(), 'i')", "half(w)")
_CONTAINERS = ("tuple", "list", "dict", "pair", "one", "added", "reduced")


class _Made:
    """A value that a pmapped function returns: its text, and how its parts are read."""

    def __init__(self, text: str, parts: dict[str, _Made]) -> None:
        self.text = text
        self.parts = parts  # by what is written after the name: `[0]`, `["a"]`, `.b`


def _made(choose: random.Random, depth: int, leaves: tuple[str, ...]) -> _Made:
    if depth == 0 or choose.random() < 0.35:
        return _Made(choose.choice(leaves), {})
    kind = choose.choice(_CONTAINERS)
    count = 1 if kind == "one" else 2 if kind == "pair" else choose.randint(2, 3)
    inner = [_made(choose, depth - 1, leaves) for _ in range(count)]
    return _Made(
        _text(kind, [one.text for one in inner]), dict(zip(_keys(kind), inner, strict=False))
    )


def _text(kind: str, texts: list[str]) -> str:
    listed = ", ".join(texts)
    if kind == "dict":
        return "{" + ", ".join(f"'{k}': {t}" for k, t in zip("abc", texts, strict=False)) + "}"
    if kind == "added":
        return " + ".join(f"({text},)" for text in texts)
    forms: dict[str, str] = {
        "tuple": f"({listed})",
        "list": f"[{listed}]",
        "pair": f"Pair({listed})",
        "one": f"({listed},)",
        "reduced": f"lax.pmean(({listed}), 'i')",
    }
    return forms[kind]


def _keys(kind: str) -> list[str]:
    if kind == "dict":
        return ['["a"]', '["b"]', '["c"]']
    return [".a", "[1]"] if kind == "pair" else ["[0]", "[1]", "[2]"]


_READ_LEAF: tuple[str, ...] = (
    "print(np.asarray({0}[0]))", "print({0}[0].shape)", "print(jax.device_get({0}[0]))",
    "print(f'{{{0}[0]}}')", "print({0}.shape)", "print(np.asarray({0}))",
    "y = {0}[0]\nprint(y + 1)", "v = {0}\nprint(np.asarray(v[0]))",
    "print(np.asarray({0}[0]).mean())",
    "print(jax.tree.map(lambda v: v[0], {0}))", "print(float({0}[0].sum()))",
)  # fmt: skip
_READ_TREE: tuple[str, ...] = (
    "print(len({0}))", "show(jax.tree.map(lambda v: v[0], {0}))", "show({0})",
    "show(jax.device_get({0}))",
)  # fmt: skip


def _reads(choose: random.Random, name: str, made: _Made) -> list[str]:
    if not made.parts:
        return [read.format(name) for read in choose.sample(_READ_LEAF, 2)]
    key = choose.choice(list(made.parts))
    found = [choose.choice(_READ_TREE).format(name)]
    if '"' not in key and "." not in key and choose.random() < 0.4:
        return found + _unpacked(choose, name, list(made.parts.values()))
    return found + _reads(choose, name + key, made.parts[key])


def _unpacked(choose: random.Random, name: str, parts: list[_Made]) -> list[str]:
    names = [f"v{choose.randint(0, 99)}_{n}" for n in range(len(parts))]
    number = choose.randrange(len(parts))
    if choose.random() < 0.3:
        read = names[0] if number == 0 else f"rest[{number - 1}]"
        return [f"{names[0]}, *rest = {name}", *_reads(choose, read, parts[number])]
    target = ", ".join(names) + "," * (len(names) == 1)
    return [f"{target} = {name}", *_reads(choose, names[number], parts[number])]


def _returned(choose: random.Random, text: str) -> str:
    ways: list[Callable[[str], str]] = [
        lambda t: f"    return {t}\n",
        lambda t: f"    out = {t}\n    return out\n",
        lambda t: f"    def inner(w, x):\n        return {t}\n    return inner(w, x)\n",
        lambda t: f"    if x.ndim > 5:\n        return None\n    return {t}\n",
        lambda t: f"    out = {t}\n    out = jax.tree.map(lambda v: v * 2, out)\n    return out\n",
    ]
    return choose.choice(ways)(text)


def generated(seed: int) -> str:
    """A program that prints, in two or three ways, parts of what it has mapped."""
    choose = random.Random(seed)
    # What is the same on all devices may lose its device axis; most else keeps it.
    leaves = _EQUAL if choose.random() < 0.5 else _LEAVES
    made = _made(choose, 3, leaves)
    while not made.parts and choose.random() < 0.7:
        made = _made(choose, 3, leaves)
    lines = [line for _ in range(choose.randint(1, 3)) for line in _reads(choose, "out", made)]
    loop = "for k in range(2):\n    out = p(w, x)\n" if choose.random() < 0.2 else "out = p(w, x)\n"
    return (
        f"{_HEAD}\n\nclass Pair(NamedTuple):\n    a: object\n    b: object\n\n\n"
        "def show(tree):\n    print(jax.tree.map(np.asarray, tree))\n\n\n"
        "def half(x):\n    return x * 0.5\n\n\n"
        f"def f(w, x):\n{_returned(choose, made.text)}\n\n"
        "w = jnp.stack([jnp.ones(3)] * jax.device_count())\n"
        f"p = jax.pmap(f, axis_name='i')\n{loop}" + "\n".join(lines) + "\n"
    )
