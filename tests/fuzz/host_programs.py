"""Random programs that use outputs of pmapped functions on the host, and print what they get."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Tree:
    """What a mapped function returns: an array, or a container of trees."""

    kind: str  # "array", "scalar", "tuple", "list", "dict" or "named"
    parts: tuple[Tree, ...] = ()

    @property
    def is_array(self) -> bool:
        """Whether it is one array."""
        return not self.parts


ROW, SCALAR = Tree("array"), Tree("scalar")
HEADER = """\
import collections, functools, hashlib, io, json, pickle
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

n = jax.local_device_count()
Pair = collections.namedtuple("Pair", ["first", "second"])
X = np.arange(n * 3, dtype=np.float32).reshape(n, 3)
W = jnp.arange(3, dtype=jnp.float32)


def show(value, *more):
    print("shown", value, *more)


def digest(value):
    return hashlib.md5(np.asarray(value).tobytes()).hexdigest()[:8]


class Box:
    pass


box = Box()
"""
ROWS = (  # without -0.0, which `x[0]` of a sharded array loses: docs/migrate.md
    "x", "x * 10", "x + 1", "-1 - x", 'lax.pmean(x, "i")', 'lax.psum(x * 2, "i")',
    'lax.ppermute(x, "i", [(k, (k + 1) % n) for k in range(n)])',
    'lax.all_gather(x, "i", tiled=True)[:3]', 'lax.pmin(x, "i")',
    "x.astype(jnp.bfloat16)", "x > 2", "x.astype(jnp.int8) * 50",
    "jnp.where(x > 2, jnp.nan, x)",
    "lax.cumsum(x)", 'lax.scan(lambda c, v: (c + lax.pmean(v, "i"), c), 0.0, x)[1]',
)  # fmt: skip
SCALARS = (
    "x.sum()", "x.max()", 'lax.pmean(x.sum(), "i")', 'lax.axis_index("i")',
    'lax.pmax(x.sum(), "i")', "(x > 2).any()", "x.astype(jnp.int8).sum()", "3", "2.5",
)  # fmt: skip


# Uses of a value {0}; each is one line of a program.
WHOLE = """
print(jax.tree.map(lambda v: np.asarray(v)[0], {0}))
print(jax.tree.map(lambda v: v[0], {0}))
print(jax.device_get(jax.tree.map(lambda v: v[0], {0})))
show(jax.tree.leaves({0})[0][0])
print(len({0}), type({0}).__name__)
print('%s' % (jax.tree.map(np.asarray, {0}),))
print([digest(leaf) for leaf in jax.tree.leaves({0})])
""".strip().splitlines()
DICT = """
print({{k: jax.tree.map(np.asarray, v) for k, v in {0}.items()}})
print(jax.tree.map(np.asarray, dict({0}, more=1)))
""".strip().splitlines()
SEQUENCE = """
print([jax.tree.map(np.shape, v) for v in {0}])
print(jax.tree.map(np.sum, {0}[::-1]))
""".strip().splitlines()
ARRAY = """
print(np.asarray({0}))
print({0}.shape, {0}.ndim, {0}.dtype)
print({0}[0])
print(np.asarray({0}[0]))
print({0}[:1])
print(f'{{{0}[0]}}')
print(len({0}))
print(jax.device_get({0}))
print(jax.device_get({0}[0]))
print(json.dumps({0}[0].tolist()))
print(digest({0}), digest({0}[0]))
print({0}[0] + 1)
for row in {0}: print(row)
one, two = {0}; print(one, two)
show({0}, {0}[0])
box.x = {0}; print(box.x[0])
kept = [{0}]; print(kept[0])
file = io.BytesIO(); np.save(file, {0}[0]); print(digest(file.getvalue()))
print(jax.tree.map(lambda v: v[0], {0}))
print(np.array_equal({0}[0], {0}[1]))
print((lambda v: v[0])({0}))
print({0}.at[0].set(7))
""".strip().splitlines()
SCALAR_ARRAY = """
print({0}.weak_type, ({0} + jnp.int8(1)).dtype)
print(float({0}[0]))
print(f'{{float({0}[0]):.3f}}')
print({0}[0].item())
""".strip().splitlines()
ROW_ARRAY = """
print({0}[0, 1])
print({0}[:, 0])
print(float({0}[0][2]))
""".strip().splitlines()


def random_tree(rng: random.Random, depth: int = 2) -> Tree:
    """A tree of a few levels."""
    kind = rng.choice(("array", "scalar", "tuple", "tuple", "list", "dict", "named"))
    if depth == 0 or kind in ("array", "scalar"):
        return rng.choice((ROW, ROW, SCALAR))
    count = 2 if kind == "named" else rng.choice((1, 2, 2, 3))
    return Tree(kind, tuple(random_tree(rng, depth - 1) for _ in range(count)))


def build(tree: Tree, rng: random.Random) -> str:
    """An expression of the body that returns such a tree."""
    if tree.is_array:
        return rng.choice(ROWS if tree.kind == "array" else SCALARS)
    parts = [build(part, rng) for part in tree.parts]
    if tree.kind == "dict":
        return (
            "{"
            + ", ".join(f'"{key}": {part}' for key, part in zip("abc", parts, strict=False))
            + "}"
        )
    if tree.kind == "named":
        return f"Pair({', '.join(parts)})"
    if tree.kind == "list":
        return f"[{', '.join(parts)}]"
    return rng.choice((f"({', '.join(parts)},)", f"tuple([{', '.join(parts)}])"))


class Writer:
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        """Of a number."""
        self.rng = random.Random(f"host {seed}")
        self.lines: list[str] = []
        self.names = 0

    def program(self) -> str:
        """The whole text."""
        for _ in range(self.rng.choice((1, 1, 2))):
            self.rng.choice((self.site, self.site, self.training))()
        return HEADER + "\n" + "\n".join(self.lines) + "\n"

    def name(self, stem: str) -> str:
        """A name that is not taken."""
        self.names += 1
        return f"{stem}{self.names}"

    def add(self, *lines: str) -> None:
        """Lines of the program."""
        self.lines += lines

    # ---- mapped functions

    def mapped(self, tree: Tree) -> str:
        """Define a mapped function of one argument; returns its name."""
        name, body, axis = self.name("f"), build(tree, self.rng), 'axis_name="i"'
        form = self.rng.randrange(4)
        if form == 0:
            self.add(f"{name} = jax.pmap(lambda x: {body}, {axis})")
        elif form == 1:
            self.add(f"def body_{name}(x):", f"    out = {body}", "    return out", "", "")
            self.add(f'{name} = jax.pmap(body_{name}, "i")')
        else:
            axes = "0"
            if form == 2 and tree.kind == "tuple":
                axes = f"({', '.join(self.rng.choice(('None', '0')) for _ in tree.parts)},)"
            elif form == 2:
                axes = "None"
            self.add(f"@functools.partial(jax.pmap, {axis}, out_axes={axes})", f"def {name}(x):")
            self.add(f"    return {body}", "", "")
        return name

    def site(self) -> None:
        """A function that is called once, and uses of its result."""
        tree = random_tree(self.rng)
        call = f"{self.mapped(tree)}(X)"
        out = call
        if self.rng.random() < 0.85:
            out = self.name("out")
            self.add(f"{out} = {call}")
        for _ in range(self.rng.choice((1, 2, 3))):
            self.use(out, tree)

    def training(self) -> None:
        """A loop with a state that is the same on all devices, and metrics."""
        rng, step, state, metrics = self.rng, *map(self.name, ("step", "state", "metrics"))
        update = rng.choice(('w - 0.5 * lax.pmean(x, "i")', "w + 1", "w * 2 - x"))
        tree = random_tree(rng, 1)
        body = build(tree, rng)
        self.add(f"def body_{step}(w, x):", f"    return {update}, {body}", "", "")
        self.add(f'{step} = jax.pmap(body_{step}, axis_name="i")')
        placed = rng.choice(
            ("jax.device_put_replicated(W, jax.local_devices())", "jnp.stack([W] * n)")
        )
        self.add(f"{state} = {placed}", f"for turn in range({rng.choice((1, 2))}):")
        self.add(f"    {state}, {metrics} = {step}({state}, X + turn)")
        self.use(metrics, tree)
        self.use(state, ROW)

    # ---- uses

    def use(self, out: str, tree: Tree) -> None:
        """One use of a value with such a tree."""
        if tree.is_array:
            self.use_array(out, tree)
        else:
            self.rng.choice((self.take, self.take, self.unpack, self.loop, self.whole))(out, tree)

    def take(self, out: str, tree: Tree) -> None:
        """One part of a container."""
        k = self.rng.randrange(len(tree.parts))
        part = tree.parts[k]
        self.use(self.part(out, tree, k), part)

    def part(self, out: str, tree: Tree, k: int) -> str:
        """An expression for a part of a container."""
        if tree.kind == "dict":
            return self.rng.choice((f'{out}["{"abc"[k]}"]', f'{out}.get("{"abc"[k]}")'))
        if tree.kind == "named" and self.rng.random() < 0.5:
            return f"{out}.{('first', 'second')[k]}"
        return f"{out}[{self.rng.choice((k, k - len(tree.parts)))}]"

    def unpack(self, out: str, tree: Tree) -> None:
        """All parts of a container, by unpacking it."""
        names = [self.name("v") for _ in tree.parts]
        source = f"{out}.values()" if tree.kind == "dict" else out
        self.add(f"{', '.join(names)}, = {source}")
        for name, part in zip(names, tree.parts, strict=True):
            if self.rng.random() < 0.7:
                self.use(name, part)

    def loop(self, out: str, tree: Tree) -> None:
        """A loop over the parts."""
        pairs = f"{out}.items()" if tree.kind == "dict" else f"enumerate({out})"
        self.add(f"for key, item in {pairs}:", "    print(key, jax.tree.map(np.asarray, item))")

    def whole(self, out: str, tree: Tree) -> None:
        """The container as one value."""
        more = DICT if tree.kind == "dict" else SEQUENCE
        self.add(self.rng.choice(WHOLE + more).format(out))

    def use_array(self, out: str, tree: Tree) -> None:
        """One array with a device axis."""
        forms = ARRAY + (SCALAR_ARRAY if tree.kind == "scalar" else ROW_ARRAY)
        text = self.rng.choice(forms).format(out)
        if out.endswith("(X)") and text.count(out) > 1:
            name = self.name("value")
            self.add(f"{name} = {out}")
            text = text.replace(out, name)
        if self.rng.random() < 0.15:
            function = self.name("use")
            self.add(f"def {function}():", *(f"    {line}" for line in text.split("; ")), "")
            text = f"{function}()"
        self.add(text)
