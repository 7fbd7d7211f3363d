"""Small legacy programs, as they were written between 2019 and 2023.

Each is one file, or several by path; `main()` of the first returns a tree of arrays. They run on
eight devices before and after the migration, and every leaf has to be the same bits.
"""

_HEAD = "import functools\nimport jax\nimport jax.numpy as jnp\nimport numpy as np\n"
_X = "x = np.arange(24, dtype=np.float32).reshape(8, 3)\n"


def _program(body: str, head: str = _HEAD) -> dict[str, str]:
    return {"main.py": f"{head}{_X}{body}"}


# They leave pmap, by the helper and at the site.
MOVED: dict[str, dict[str, str]] = {
    "psum over the axis": _program(
        "def main():\n    return jax.pmap(lambda x: x / jax.lax.psum(x, 'i'), axis_name='i')(x + 1)\n"
    ),
    "a bare decorator": _program(
        "@jax.pmap\ndef f(x):\n    return jnp.sum(x), x\n\n\ndef main():\n    return f(x)\n"
    ),
    "a partial decorator": _program(
        "@functools.partial(jax.pmap, axis_name='batch', donate_argnums=(0,))\n"
        "def f(x, y):\n    return x + jax.lax.psum(y, 'batch')\n\n\n"
        "def main():\n    return f(jnp.array(x), x)\n"
    ),
    "pmap imported by name": _program(
        "@partial(pmap, axis_name='i')\ndef f(x):\n    return lax.axis_index('i') + x\n\n\n"
        "def main():\n    return f(x), pmap(lambda x: -x)(x)\n",
        "from functools import partial\nimport numpy as np\nfrom jax import lax, pmap\n",
    ),
    "jnp that is something else": _program(
        "jnp = 3\n\n\ndef main():\n    return jax.pmap(lambda x: x * jnp)(x)\n",
        "import jax\nimport numpy as np\n",
    ),
    "jax under another name": _program(
        "def main():\n    return j.pmap(lambda x: j.lax.pmax(x, 'i'), axis_name='i')(x)\n",
        "import numpy as np\nimport jax as j\n",
    ),
    "a bound method kept on self": _program(
        "class Trainer:\n    def __init__(self):\n"
        "        self._step = jax.pmap(self._update, axis_name='i', donate_argnums=(0,))\n\n"
        "    def _update(self, w, x):\n"
        "        g = jax.grad(lambda w: jnp.sum((w * x) ** 2))(w)\n"
        "        return w - 0.1 * jax.lax.pmean(g, 'i')\n\n"
        "    def run(self):\n        w = jnp.ones((8, 3))\n"
        "        for _ in range(3):\n            w = self._step(w, x)\n        return w\n\n\n"
        "def main():\n    return Trainer().run()\n"
    ),
    "keyword arguments": _program(
        "def f(x, y, z=0.0):\n    return x - y + z\n\n\np = jax.pmap(f)\n\n\n"
        "def main():\n    return p(x, y=x * 2), p(x, x, z=x + 1)\n"
    ),
    "fewer rows than devices": _program(
        "def main():\n    p = jax.pmap(lambda x: jax.lax.psum(x, 'i'), 'i')\n"
        "    return p(x[:4]), p(x[:1]), p(x)\n"
    ),
    "nested in one expression": _program(
        "def main():\n    y = x.reshape(-1)[:8].reshape(4, 2)\n"
        "    f = lambda x: jax.lax.psum(x, 'i') * 10 + jax.lax.psum(x, 'j')\n"
        "    return jax.pmap(jax.pmap(f, axis_name='j'), axis_name='i')(y)\n"
    ),
    "nested decorators": _program(
        "@functools.partial(jax.pmap, axis_name='i')\n@functools.partial(jax.pmap, axis_name='j')\n"
        "def f(x):\n    return jax.lax.psum(x, ('i', 'j')), jax.lax.axis_index('j')\n\n\n"
        "def main():\n    return f(np.arange(16.0).reshape(2, 4, 2))\n"
    ),
    "three levels": _program(
        "def main():\n"
        "    p = jax.pmap(jax.pmap(jax.pmap(lambda x: jax.lax.psum(x, ('a', 'c')), 'c'), 'b'), 'a')\n"
        "    return p(np.arange(8.0).reshape(2, 2, 2))\n"
    ),
    "rebound": _program(
        "def step(x):\n    return jax.lax.psum(x, 'i')\n\n\nstep = jax.pmap(step, axis_name='i')\n\n\n"
        "def main():\n    return step(x)\n"
    ),
    "a vmap inside": _program(
        "def main():\n    y = np.arange(48.0).reshape(8, 2, 3)\n"
        "    f = jax.vmap(lambda x: jax.lax.pmean(x, ('batch', 'i')), axis_name='batch')\n"
        "    return jax.pmap(f, axis_name='i')(y)\n"
    ),
    "a gradient through it": _program(
        "def main():\n    p = jax.pmap(lambda w, x: jax.lax.psum(w * x, 'i'), 'i')\n"
        "    return jax.grad(lambda w: jnp.sum(p(w, x) ** 2))(jnp.ones((8, 3)))\n"
    ),
    "random keys": _program(
        "def main():\n    keys = jax.random.split(jax.random.PRNGKey(0), 8)\n"
        "    typed = jax.random.split(jax.random.key(1), 8)\n"
        "    f = jax.pmap(lambda k: jax.random.normal(k, (3,)))\n"
        "    return f(keys), f(typed), jax.pmap(jax.random.split)(keys)\n"
    ),
    "lowered ahead of time": _program(
        "def main():\n    p = jax.pmap(lambda x: x * 5)\n    return p.lower(x).compile()(x)\n"
    ),
    "None, tuples and scalars": _program(
        "def main():\n    f = lambda a, b: (a[0], None, (a[1], 1.5), b)\n"
        "    return jax.pmap(f)((x, x.astype(np.int32)), None)\n"
    ),
    "a message of the first process": _program(
        "def main():\n    p = jax.pmap(lambda x: jax.lax.psum(x, 'i'), 'i', donate_argnums=())\n"
        "    if jax.process_index() == 0:\n        return p(x), jax.pmap(jnp.sin)(x)\n    return ()\n"
    ),
    "scripts side by side": {
        "main.py": "import jax\nimport numpy as np\nimport neighbour\n\n\n"
        "def main():\n    return neighbour.f(np.arange(8.0)), jax.pmap(jax.numpy.sin)(np.ones(8))\n",
        "neighbour.py": "import jax\nimport shared_settings\n\n"
        "f = jax.pmap(lambda x: jax.lax.psum(x, shared_settings.NAME), shared_settings.NAME)\n",
        "shared_settings.py": "NAME = 'i'\n",
    },
    "a donated buffer": _program(
        "def func(x):\n    return x + 1\n\n\nf = jax.pmap(func, donate_argnums=(0,))\n\n\n"
        "def main():\n    y = jax.pmap(lambda x: x)(x)\n    z = f(y)\n"
        "    assert y.is_deleted()\n    return z\n"
    ),
    "inside a function under jit": _program(
        "@jax.jit\ndef f(x):\n    return jax.pmap(lambda x: x * 2)(x) + 1\n\n\n"
        "def main():\n    return f(x)\n"
    ),
    "a function that asks whether the axis is there": _program(
        "def mean(x):\n    try:\n        return jax.lax.pmean(x, 'qmc')\n"
        "    except NameError:\n        return x\n\n\n"
        "def main():\n"
        "    named = jax.pmap(mean, axis_name='qmc')\n"
        "    nested = jax.pmap(jax.pmap(mean), 'other')(x.reshape(2, 4, 3))\n"
        "    return named(x), jax.pmap(mean)(x), jax.pmap(mean, axis_name=None)(x), nested\n"
    ),
}
# They leave pmap at the site; with the helper, they keep it.
KEPT_BY_HELPER: dict[str, dict[str, str]] = {
    "devices that are given": _program(
        "def main():\n"
        "    p = jax.pmap(lambda x: jax.lax.all_gather(x, 'i'), 'i', devices=jax.devices()[2:6])\n"
        "    return p(x[:4])\n"
    ),
    "np that is jax.numpy": _program(
        "def main():\n    p = jax.pmap(lambda x: np.sin(x), in_axes=1)\n    return p(x.T), np.cos(x)\n",
        "import jax\nimport jax.numpy as np\n",
    ),
    "in_axes and out_axes": _program(
        "def f(x, y, z):\n    return x + y, z * 2\n\n\n"
        "def main():\n"
        "    p = jax.pmap(f, in_axes=(0, None, 1), out_axes=(0, 1))\n"
        "    return p(x, 2.0, x.T)\n"
    ),
    "out_axes of None": _program(
        "def main():\n"
        "    p = jax.pmap(lambda x: (jax.lax.psum(x, 'i'), x), 'i', out_axes=(None, 0))\n"
        "    return p(x)\n"
    ),
    "a method with a static self": _program(
        "class Model:\n    scale = 3.0\n\n"
        "    @functools.partial(jax.pmap, axis_name='i', static_broadcasted_argnums=0)\n"
        "    def step(self, x):\n        return self.scale * jax.lax.psum(x, 'i')\n\n\n"
        "def main():\n    return Model().step(x)\n"
    ),
}
KEPT: dict[str, dict[str, str]] = {
    "static arguments": _program(
        "@functools.partial(jax.pmap, static_broadcasted_argnums=(1,))\n"
        "def f(x, n, y):\n    return x ** n + y if isinstance(n, int) else 'traced'\n\n\n"
        "def main():\n    return f(x, 2, x), f(x, 3, x)\n"
    ),
    "a bound method that is mapped again": _program(
        "class Trainer:\n    rate = 0.5\n\n"
        "    def make(self):\n        self.p_step = jax.pmap(self.step)\n\n"
        "    def step(self, w):\n        return w - self.rate * w\n\n\n"
        "def main():\n    trainer, w = Trainer(), x\n"
        "    for _ in range(3):\n        trainer.make()\n"
        "        w = trainer.p_step(trainer.p_step(w))\n        trainer.rate *= 0.1\n"
        "    return w\n"
    ),
    "pmap or jit": _program(
        "def main():\n    n = jax.local_device_count()\n"
        "    f = (jax.pmap if n > 1 else jax.jit)(lambda x: x * 3)\n"
        "    transform = jax.pmap if n < 1 else jax.jit\n"
        "    return f(x), transform(lambda x: x - 3)(x)\n"
    ),
    "a function around pmap": _program(
        "def parallel(f, **options):\n    return jax.pmap(f, axis_name='i', **options)\n\n\n"
        "def main():\n"
        "    f = parallel(lambda x, y: jax.lax.psum(x, 'i') + y, in_axes=(0, None), out_axes=None)\n"
        "    return f(x, 1.0)\n"
    ),
    "nested with axes": _program(
        "def main():\n    f = lambda x, y: x * jax.lax.axis_index('i') + y\n"
        "    inner = dict()\n"
        "    p = jax.pmap(jax.pmap(f, 'j', in_axes=(0, None), out_axes=1), 'i', in_axes=(1, 0))\n"
        "    return p(np.arange(24.0).reshape(4, 2, 3), np.arange(6.0).reshape(2, 3))\n"
    ),
    "a package with a wrapper": {
        "main.py": "import numpy as np\nfrom legacy_pkg.train import run\n\n\n"
        "def main():\n    return run(np.arange(8.0))\n",
        "legacy_pkg/__init__.py": "",
        "legacy_pkg/parallel.py": "import functools\nimport jax\n\nAXIS = 'i'\n"
        "pmap = functools.partial(jax.pmap, axis_name=AXIS)\n",
        "legacy_pkg/train.py": "import jax\nfrom legacy_pkg import parallel\n"
        "from legacy_pkg.deep.inside import double\n\n\n"
        "def run(x):\n    f = parallel.pmap(lambda x: jax.lax.psum(x, parallel.AXIS))\n"
        "    return f(x), jax.pmap(lambda x: x + 1)(x), double(x)\n",
        "legacy_pkg/deep/__init__.py": "",
        "legacy_pkg/deep/inside.py": "from jax import pmap\nfrom . import __name__ as _\n\n\n"
        "@pmap\ndef double(x):\n    return x * 2\n",
    },
}
PROGRAMS = {**MOVED, **KEPT_BY_HELPER, **KEPT}
