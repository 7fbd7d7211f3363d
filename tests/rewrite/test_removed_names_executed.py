"""Programs with removed names: after `migrate` they run, with the values that they had."""

from typing import Any

import pytest

from shardlift.source.settings import Settings
from tests.rewrite.steps import migrated

jax = pytest.importorskip("jax")
np = pytest.importorskip("numpy")

PROGRAM = """\
import jax
import jax.numpy as jnp
from jax import core, lax
from jax.experimental import disable_x64, enable_x64
from jax.core import get_aval
from jax.interpreters import batching
from jax.ops import index, index_add

x = jax.ops.index_update(jnp.zeros(4), jax.ops.index[1:3], 1.0)
x = index_add(x, index[0], 5.0)
shape = core.raise_to_shaped(get_aval(x)).shape


def is_bound():
    try:
        core.axis_frame("i")
        return True
    except NameError:
        return False


sizes = jax.vmap(lambda v: v * core.axis_frame("i").size, axis_name="i")(x)
bound = is_bound(), jax.vmap(lambda v: v + float(is_bound()), axis_name="i")(x)
with enable_x64():
    wide = jnp.ones(1).dtype
    with disable_x64():
        narrow = jnp.ones(1).dtype
shuffled = jax.random.shuffle(jax.random.PRNGKey(0), jnp.arange(6))
area = jnp.trapz(x)
mapped = jax.tree_multimap(lambda a, b: a + b, {"a": 1}, {"a": 2})
is_array = isinstance(x, jnp.DeviceArray)
dims = x is not batching.not_mapped, batching.not_mapped
"""


@pytest.mark.parametrize("target", [(0, 10, 2), (0, 12)])
def test_a_program_of_its_time_runs(target: tuple[int, ...]) -> None:
    names: dict[str, Any] = {}
    text = migrated(PROGRAM, settings=Settings(target))
    exec(compile(text, "program.py", "exec", dont_inherit=True), names)
    np.testing.assert_array_equal(names["x"], [5, 1, 1, 0])
    assert names["shape"] == (4,)
    np.testing.assert_array_equal(names["sizes"], [20, 4, 4, 0])
    assert names["bound"][0] is False
    np.testing.assert_array_equal(names["bound"][1], [6, 2, 2, 1])
    assert (str(names["wide"]), str(names["narrow"])) == ("float64", "float32")
    assert sorted(names["shuffled"].tolist()) == list(range(6))
    assert float(names["area"]) == 4.5
    assert names["mapped"] == {"a": 3}
    assert names["is_array"]
    assert names["dims"] == (True, None)
