"""Small programs that place and read, run before and after: the same bits in the same places.

Before: with shardlift's functions under the names that JAX and flax had for them. After: as
`migrate` rewrote them, plain JAX.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests import children, shared
from tests.rewrite.steps import migrated

pytest.importorskip("jax")
pytestmark = pytest.mark.slow

# Each leaves what it made in `result`.
PROGRAMS = {
    "sharded numpy": "result = jax.device_put_sharded([np.full((2, 3), i) for i in range(8)], d)",
    "sharded trees": (
        "shards = [{'a': jnp.arange(3.0) + i, 'b': (np.int8(i), np.ones(2))} for i in range(8)]\n"
        "result = jax.device_put_sharded(shards, d)"
    ),
    "sharded rows of an array": (
        "x = np.arange(16.0).reshape(8, 2)\nresult = jax.device_put_sharded(list(x), d)"
    ),
    "sharded keys": (
        "keys = jax.random.split(jax.random.key(0), 8)\n"
        "result = jax.device_put_sharded(list(keys), d)"
    ),
    "sharded on some devices": "result = jax.device_put_sharded([jnp.ones(2), np.ones(2)], d[2:4])",
    "sharded by an imported name": (
        "from jax import device_put_sharded as put\nresult = put([np.True_] * 8, d)"
    ),
    "replicated tree": (
        "tree = {'w': jnp.ones((3, 4), jnp.bfloat16), 'n': 3, 'f': 0.5, 'k': jax.random.key(1),\n"
        "        'z': np.zeros((0, 2)), 'none': None, 'c': 1j, 'np': np.float64(2)}\n"
        "result = jax.device_put_replicated(tree, d)"
    ),
    "replicated from another device": (
        "x = jax.device_put(jnp.arange(4.0), d[5])\nresult = jax.device_put_replicated(x, d)"
    ),
    "replicated as a value": (
        "import functools\nput = functools.partial(jax.device_put_replicated, devices=d)\n"
        "result = jax.tree.map(put, {'a': 1.0, 'b': np.ones(2)})"
    ),
    "flax replicate and back": (
        "from flax import jax_utils\n"
        "state = {'w': jnp.arange(6.0).reshape(2, 3), 'step': 0}\n"
        "stacked = jax_utils.replicate(state)\n"
        "result = stacked, jax_utils.unreplicate(stacked)"
    ),
    "flax prefetch": (
        "import flax\n"
        "batches = ({'x': np.full((8, 2), i), 'y': jnp.ones((8,)) * i} for i in range(5))\n"
        "result = list(flax.jax_utils.prefetch_to_device(batches, 2))"
    ),
    "flax shard": (
        "from flax.training import common_utils\n"
        "result = common_utils.shard({'x': np.arange(32.0).reshape(16, 2)})"
    ),
    "first of a tree": (
        "p = jax.pmap(lambda x: {'a': x * 2, 'b': x.sum()})\n"
        "out = p(jnp.arange(16.0).reshape(8, 2))\n"
        "result = jax.tree_util.tree_map(lambda x: x[0], out)"
    ),
    "first goes together with rows": (
        "p = jax.pmap(lambda x: x * 2)\nout = p(jnp.arange(16.0).reshape(8, 2))\n"
        "first = jax.tree.map(lambda x: x[0], out)\n"
        "result = first + out, first + jnp.ones(2), first + np.ones(2, np.float32)"
    ),
    "first of a helper of its own": (
        "def get_first(tree):\n    return jax.tree.map(lambda x: x[0], tree)\n"
        "p = jax.pmap(lambda x: x * 2)\n"
        "result = get_first((p(jnp.arange(8.0)), np.arange(3), jnp.ones((2, 2))))"
    ),
    "first of keys": (
        "p = jax.pmap(lambda k: jax.random.split(k)[0])\n"
        "keys = p(jax.random.split(jax.random.key(3), 8))\n"
        "result = jax.tree.map(lambda k: k[0], {'k': keys}), p(keys)"
    ),
    "first as a number": (
        "def step(x):\n    return jax.lax.pmean(x, 'i')\n"
        "p = jax.pmap(step, axis_name='i')\nloss = p(jnp.arange(8.0))\n"
        "result = float(loss[0]), f'{loss[0]:.2f}', loss[0].item(), np.asarray(loss[0])"
    ),
    "first given to a mapped function": (
        "from flax.jax_utils import replicate, unreplicate\n"
        "p = jax.pmap(lambda w, x: w * x, in_axes=(None, 0))\n"
        "w = unreplicate(replicate(jnp.arange(3.0)))\n"
        "result = p(w, jnp.arange(24.0).reshape(8, 3))"
    ),
    "first under jit": (
        "def first(tree):\n    return jax.tree.map(lambda x: x[0], tree)\n"
        "result = jax.jit(first)(jnp.arange(8.0)), jax.vmap(first)(jnp.ones((2, 8)))"
    ),
    "a training loop": (
        "from flax import jax_utils\n"
        "def step(w, x):\n"
        "    g = jax.lax.pmean(jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w), 'batch')\n"
        "    return w - 0.1 * g, jax.lax.pmean(jnp.mean((x @ w) ** 2), 'batch')\n"
        "p_step = jax.pmap(step, axis_name='batch', donate_argnums=0)\n"
        "w = jax_utils.replicate(np.linspace(0, 1, 6, dtype=np.float32).reshape(3, 2))\n"
        "data = (np.random.RandomState(i).randn(8, 4, 3).astype(np.float32) for i in range(4))\n"
        "losses = []\n"
        "for x in jax_utils.prefetch_to_device(data, 2):\n"
        "    w, loss = p_step(w, x)\n    losses.append(float(loss[0]))\n"
        "result = jax_utils.unreplicate(w), losses"
    ),
}

HEAD = "import jax\nimport jax.numpy as jnp\nimport numpy as np\nd = jax.local_devices()\n"

RUNNER = """
import json, sys, types, warnings
import jax, jax.numpy as jnp, numpy as np
import shardlift

def leaf(x):
    if not isinstance(x, jax.Array):
        array = np.asarray(x)
        return [type(x).__name__, str(array.dtype), list(array.shape), array.tobytes().hex()]
    key = jnp.issubdtype(x.dtype, jax.dtypes.prng_key)
    data = np.asarray(jax.random.key_data(x) if key else x)
    rows = sorted((s.device.id, str(s.index)) for s in x.addressable_shards)
    weak = bool(jax.typeof(x).weak_type)
    return [str(x.dtype), weak, list(x.shape), data.tobytes().hex(), str(rows)]

def run(text):
    names = {"__name__": "program"}
    try:
        exec(compile(text, "program.py", "exec"), names)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    leaves, tree = jax.tree.flatten(names["result"])
    return [str(tree), [leaf(x) for x in leaves]]

programs = json.loads(sys.stdin.read())
after = {name: run(pair[1]) for name, pair in programs.items()}
utils = types.ModuleType("flax.jax_utils")
utils.replicate, utils.unreplicate = shardlift.replicate, shardlift.unreplicate
utils.prefetch_to_device = shardlift.prefetch_to_device
common = types.ModuleType("flax.training.common_utils")
common.shard = shardlift.shard
flax, training = types.ModuleType("flax"), types.ModuleType("flax.training")
flax.jax_utils, flax.training, training.common_utils = utils, training, common
sys.modules.update({"flax": flax, "flax.jax_utils": utils, "flax.training": training})
sys.modules["flax.training.common_utils"] = common
after["flax shard"] = run(programs["flax shard"][1])  # left as it is
jax.device_put_sharded = shardlift.device_put_sharded
jax.device_put_replicated = shardlift.device_put_replicated
before = {name: run(pair[0]) for name, pair in programs.items()}
print(json.dumps([before, after]))
"""


@pytest.fixture(scope="module")
def outcomes() -> dict[str, list[object]]:
    return shared.once("placing", _run)


def _run() -> dict[str, tuple[object, object]]:
    texts = {name: HEAD + body + "\n" for name, body in PROGRAMS.items()}
    pairs = {name: [text, migrated(text)] for name, text in texts.items()}
    source = Path(__file__).parents[2] / "src"
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "JAX_NUM_CPU_DEVICES": "8",
        "JAX_NUMPY_DTYPE_PROMOTION": "standard",
        "PYTHONPATH": str(source),
        "PYTHONWARNINGS": "ignore",
    }
    done = children.run(
        [sys.executable, "-c", RUNNER],
        text=json.dumps(pairs),
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    before, after = json.loads(done.stdout.splitlines()[-1])
    return {name: (before[name], after[name]) for name in PROGRAMS}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_bits_in_the_same_places(name: str, outcomes: dict[str, list[object]]) -> None:
    before, after = outcomes[name]
    assert isinstance(before, list), before  # else it raised
    assert after == before


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_removed_is_left(name: str) -> None:
    after = migrated(HEAD + PROGRAMS[name] + "\n")
    for word in ("jax.device_put_sharded", "jax.device_put_rep", "jax_utils", "shardlift"):
        assert word not in after
