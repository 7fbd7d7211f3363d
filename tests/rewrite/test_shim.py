"""`--to shim`: the smallest change that runs."""

import pytest

from shardlift.rewrite.goal import Goal
from tests.rewrite.steps import migrated


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import jax\np = jax.jit(f)\n", None),
        ("from mylib import pmap\np = pmap(f)\n", None),
        (
            "import jax\np = jax.pmap(f, 'i')\nq = jax.jit(f)\n",
            "import jax\nimport shardlift\np = shardlift.pmap(f, 'i')\nq = jax.jit(f)\n",
        ),
        (
            "from jax import pmap\n@pmap\ndef f(x): ...\n",
            "from shardlift import pmap\n@pmap\ndef f(x): ...\n",
        ),
        (
            "from jax import jit, pmap as p, vmap\ny = p(jit(vmap(f)))(x)\n",
            "from jax import jit, vmap\nfrom shardlift import pmap as p\ny = p(jit(vmap(f)))(x)\n",
        ),
        (
            "from jax import pmap, device_put_sharded\ny = pmap(f)(device_put_sharded(xs, d))\n",
            "from shardlift import device_put_sharded, pmap\n"
            "y = pmap(f)(device_put_sharded(xs, d))\n",
        ),
    ],
)
def test_shim(before: str, after: str | None) -> None:
    assert migrated(before, Goal.SHIM) == (after or before)
    assert migrated(after or before, Goal.SHIM) == (after or before)
