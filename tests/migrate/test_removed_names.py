"""Removed names: what is left alone, renamed, or refused with its successor named."""

from __future__ import annotations

import pytest

from shardlift.migrate.removed_names import rewrite
from shardlift.migrate.rewrite import Goal
from tests.migrate.steps import migrated, refused, results


@pytest.mark.parametrize(
    "text",
    [
        "import jax\ny = jax.tree.map(f, x)\n",
        "from jax.tree_util import tree_map\ny = tree_map(f, x)\n",
        "try:\n    from jax import tree_map\nexcept ImportError:\n    from jax.tree import map\n",
        "import jax\nif hasattr(jax, 'tree_map'):\n    y = jax.tree_map(f, x)\n",
        "import jax\nif jax.__version__ < '0.4':\n    y = jax.tree_map(f, x)\n",
        "import jax\nm = getattr(jax, 'tree_map', None)\n",
        "import mylib as jax\ny = jax.tree_map(f, x)\n",
        "from mylib import host_id\nhost_id()\n",
        "import jax\njax.config.update('jax_enable_x64', True)\n",
        "import jax\ntry:\n    jax.config.update('jax_pmap_shmap_merge', 0)\n"
        "except Exception:\n    pass\n",
        "import jax\nx = jax.device_put_sharded(xs, d)\n",  # for another step
        "from jax.experimental.shard_map import shard_map\n",  # still works
        "text = 'jax.tree_map'\n",
    ],
)
def test_left_alone(text: str) -> None:
    assert not results(rewrite, text)


@pytest.mark.parametrize("goal", Goal)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import jax\ny = jax.tree_map(f, x)\n", "import jax\ny = jax.tree.map(f, x)\n"),
        (
            "from jax import jit, tree_map as tm, tree_leaves\ny = tm(f, x), tree_leaves(jit)\n",
            "from jax import jit\nfrom jax.tree_util import tree_map as tm, tree_leaves\n"
            "y = tm(f, x), tree_leaves(jit)\n",
        ),
        (
            "import jax\nif jax.host_id() == 0:\n    print(jax.host_count())\n",
            "import jax\nif jax.process_index() == 0:\n    print(jax.process_count())\n",
        ),
        (
            "import jax\njax.config.update('jax_pmap_shmap_merge', False)\ny = jax.jit(f)\n",
            "import jax\ny = jax.jit(f)\n",
        ),
        (
            "import os\nos.environ['JAX_PMAP_SHMAP_MERGE'] = '0'\nimport jax\ny = jax.jit(f)\n",
            "import jax\ny = jax.jit(f)\n",
        ),
        (
            "import jax\np = jax.core.Primitive('p')\n",
            "import jax\nimport jax.extend.core\np = jax.extend.core.Primitive('p')\n",
        ),
        (
            "from jax import core\np = core.Primitive('p')\nq = core.Tracer\n",
            "from jax import core\nimport jax.extend.core\n"
            "p = jax.extend.core.Primitive('p')\nq = core.Tracer\n",
        ),
        ("from jax.core import Jaxpr\nx: Jaxpr\n", "from jax.extend.core import Jaxpr\nx: Jaxpr\n"),
        (
            "from jax.interpreters.pxla import PartitionSpec as P\nx = P()\n",
            "from jax.sharding import PartitionSpec as P\nx = P()\n",
        ),
        (
            "from jax.experimental import PartitionSpec, stax\nx = PartitionSpec(), stax.Dense\n",
            "from jax.sharding import PartitionSpec\nfrom jax.example_libraries import stax\n"
            "x = PartitionSpec(), stax.Dense\n",
        ),
        (
            "from jax.experimental.maps import Mesh\nm = Mesh(d, ('i',))\n",
            "from jax.sharding import Mesh\nm = Mesh(d, ('i',))\n",
        ),
        (
            "import jax.numpy as jnp\ndef f(x: jnp.DeviceArray): ...\n",
            "import jax\ndef f(x: jax.Array): ...\n",
        ),
        (
            "from jax import partial, jit\n@partial(jit, static_argnums=0)\ndef f(n): ...\n",
            "from jax import jit\nfrom functools import partial\n"
            "@partial(jit, static_argnums=0)\ndef f(n): ...\n",
        ),
        (
            "import jax\nfrom jax.lib import xla_bridge\nprint(xla_bridge.get_backend(), jax)\n",
            "import jax\nimport jax.extend.backend\nprint(jax.extend.backend.get_backend(), jax)\n",
        ),
        (
            "import jax\nprint(jax.lib.xla_bridge.get_backend().platform)\n",
            "import jax\nimport jax.extend.backend\n"
            "print(jax.extend.backend.get_backend().platform)\n",
        ),
    ],
)
def test_renamed(before: str, after: str, goal: Goal) -> None:
    assert migrated(before, goal) == after
    assert migrated(after, goal) == after


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("from jax.experimental.maps import xmap\n", "removed in JAX 0.4.31: see jax.shard_map"),
        ("import jax\nx = jax.ops.index_update(x, 0, y)\n", "removed in JAX 0.3.2"),
        ("import jax\nok = isinstance(s, jax.sharding.PmapSharding)\n", "see jax.sharding.Named"),
        ("import jax\nf = jax.soft_pmap(g)\n", "removed in JAX 0.3.18"),
        ("import jax\nb = x.device_buffers\n", "addressable_shards"),
        ("import jax\nold = jax.config.jax_pmap_shmap_merge\n", "removed in JAX 0.10"),
    ],
)
def test_refused_with_a_reason(text: str, reason: str) -> None:
    assert migrated(text) == text
    assert any(reason in said for said in refused(rewrite, text))
