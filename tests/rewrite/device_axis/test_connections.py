"""Calls of pmapped functions with lists and dicts: their elements have the layout."""

from __future__ import annotations

import pytest

from shardlift.rewrite.goal import Goal
from tests.rewrite.test_programs import PLACED, migrated

HEAD = """\
import jax
import jax.numpy as jnp
from jax import lax


def step(params, batch):
    return lax.pmean(params[0] * batch["x"], "i")


params = [jax.device_put_replicated(jnp.ones(2), jax.local_devices())]
"""
CALL = 'out = jax.pmap(step, "i")(params, batch)\nprint(out[0])\n'


@pytest.mark.parametrize(
    "text",
    [
        "import jax\n\ndata = [1]\njax.pmap(lambda x: x + 1)(data)\n",
        f"{HEAD}batch = {{'x': rows}}\nfor key in batch:\n    pass\n{CALL}",
    ],
)
def test_a_list_or_a_dict_that_is_iterated_over_is_followed(text: str) -> None:
    _, result = migrated({"main.py": text}, goal=Goal.GLOBAL)
    assert result.unreadable == ()
    assert any("keeps its device axis" in one.reason for f in result.files for one in f.refused)


def test_arguments_beside_an_unpacked_one_are_followed() -> None:
    more = 'print("metrics", out.shape, *sorted(params))\n'
    _, result = migrated({"main.py": f"{HEAD}batch = rows\n{CALL}{more}"}, goal=Goal.GLOBAL)
    assert result.unreadable == ()
    said = [one.reason for file in result.files for one in file.refused]
    assert any("shows its shape" in one for one in said), said


def test_a_list_of_whole_trees_is_whole_at_the_site() -> None:
    after, _ = migrated({"main.py": f"{HEAD}batch = {{'x': rows}}\n{CALL}"}, goal=Goal.GLOBAL)
    assert PLACED.search(after["main.py"])
    assert 'in_specs=(jax.P(), jax.P("i"))' in after["main.py"]


STEPS = """\
import jax
import jax.numpy as jnp


def step(params, batch):
    return jax.lax.pmean(params * batch, "i")


p_step = jax.pmap(step, axis_name="i")


def place(x):
    return jax.device_put_replicated(x, jax.local_devices())
"""
TRAIN = """\
from steps import p_step, place

params = place(1.0)
print(float(jax.tree.map(lambda x: x[0], p_step(params, rows))))
"""


PADDED = """\
import jax
from flax import jax_utils


def predict(params, x):
    return x @ params


p_predict = jax_utils.pad_shard_unpad(jax.pmap(predict))


def main(params, x):
    params = jax_utils.replicate(params)
    print(p_predict(params, x[:37]))


if __name__ == "__main__":
    main(weights, inputs)
"""


def written(text: str) -> str:
    return migrated({"main.py": text}, goal=Goal.GLOBAL)[0]["main.py"]


def test_what_flax_pads_has_one_row_per_device() -> None:
    after = written(PADDED)
    assert "jax_utils.pad_shard_unpad(jax.jit(\n" in after
    assert 'in_specs=(jax.P(), jax.P("_devices"))' in after
    assert 'out_specs=jax.P("_devices")' in after
    assert "    x = jax.tree.map(lambda x: x[0], x)\n    return jax.numpy.expand_dims(" in after
    assert PLACED.search(after)
    assert "print(p_predict(params, x[:37]))" in after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("jax.pmap(predict))", "jax.pmap(predict), static_argnums=())"),
        ("jax.pmap(predict))", "jax.pmap(predict), static_argnums=NUMBERS)"),
        ("jax.pmap(predict))", "jax.pmap(predict), static_argnames=('y',))"),
    ],
)
def test_what_flax_pads_in_a_way_that_is_not_known_stays(before: str, after: str) -> None:
    assert not PLACED.search(written(PADDED.replace(before, after)))


def test_a_keyword_argument_of_what_flax_pads_keeps_its_axis() -> None:
    assert "jax.pmap" in written(PADDED.replace("x[:37])", "x=x[:37])"))


def test_the_least_size_of_a_padded_batch_is_no_argument_of_the_function() -> None:
    text = PADDED.replace("x[:37])", "x[:37], min_device_batch=8)")
    assert 'in_specs=(jax.P(), jax.P("_devices"))' in written(text)


UNPACKED = """\
import jax
import jax.numpy as jnp


def batch(step):
    x = jnp.ones((8, 2)) * step
    return x, x.sum(-1)


def one_or_two(x):
    return (x, x.sum(-1)) if x.ndim else (x,)


@jax.pmap
def add(params, x, y):
    return jax.lax.pmean(params * x + y, "i")


def main():
    params = jax.device_put_replicated(jnp.ones(2), jax.local_devices())
    x = jnp.ones((8, 2))
    rows = x, x.sum(-1)
    print(add(params, *rows)[0])


main()
""".replace("@jax.pmap", '@functools.partial(jax.pmap, axis_name="i")')


@pytest.mark.parametrize("rows", ["x, x.sum(-1)", "batch(1)"])
def test_a_tuple_of_known_length_is_unpacked_into_arguments(rows: str) -> None:
    text = UNPACKED.replace("rows = x, x.sum(-1)", f"rows = {rows}")
    after = written(f"import functools\n\n{text}")
    assert 'in_specs=(jax.P(), jax.P("i"), jax.P("i"))' in after
    assert PLACED.search(after)


@pytest.mark.parametrize(
    "returned", ["one_or_two(x)", "[x, x.sum(-1)]", "tuple(x for _ in range(2))", "x", "(*x,)"]
)
def test_what_is_not_known_to_be_a_tuple_is_not_unpacked(returned: str) -> None:
    text = UNPACKED.replace("rows = x, x.sum(-1)", f"rows = {returned}")
    assert "in_specs=(jax.P()" not in written(f"import functools\n\n{text}")
