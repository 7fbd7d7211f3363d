"""Every row of docs/guide_coverage.md is true of the guide's own example, shortened."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from shardlift.check.engine import check_text
from shardlift.check.rules import all_rules
from shardlift.source.settings import Settings

PAGE = Path(__file__).parents[2] / "docs" / "guide_coverage.md"
HEAD = """\
import os
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from flax import jax_utils
from flax.training import common_utils

P, auto = jax.P, jax.sharding.AxisType.Auto
mesh = jax.make_mesh((8,), ("i",), axis_types=(auto,))
"""
OUT = "f = jax.pmap(lambda x: x / 2)\nx = f(x)\n"
STEP = "step = jax.pmap(f)\n"
MAPPED = "@jax.jit\n@partial(jax.shard_map, mesh=mesh, in_specs=P('i'), out_specs=P('i'))\n"
CALL = "\ny = mapped_fn(x.reshape((jax.device_count(), -1)))\n"
MANY = "jax.distributed.initialize()\n"
# For how the guide begins each statement: its example. `#!` ends the line that is reported.
EXAMPLES = {
    "Setting `jax_pmap_shmap_merge`": 'jax.config.update("jax_pmap_shmap_merge", False)  #!',
    "The variable `JAX_PMAP_SHMAP_MERGE`": 'os.environ["JAX_PMAP_SHMAP_MERGE"] = "0"  #!',
    "The flag `--jax_pmap_shmap_merge`": 'argv = ["train.py", "--jax_pmap_shmap_merge=0"]  #!',
    "The option asked for": "if jax.config.jax_pmap_shmap_merge:  #!\n    pass",
    "New or important code": "f = jax.pmap(func, donate_argnums=(0,))  #!",
    "The same behind a wrapper": "pmap = partial(jax.pmap, axis_name='i')  #!",
    "The same where pmap is passed along": "train(transform=jax.pmap)  #!",
    "Incompatible devices": f"{STEP}x = jax.device_put(x, jax.devices()[0])\ny = step(x)  #!",
    "Incompatible devices: reshard": (
        f"{STEP}x = jax.device_put(x, jax.NamedSharding(mesh, P('i')))\ny = step(x)"
    ),
    "Incompatible devices: `in_axes`": (
        "step = jax.pmap(f, in_axes=None)\ny = step(jax.device_put(x, jax.devices()[0]))"
    ),
    "Incompatible devices: `devices`, `backend`": (
        "d = jax.devices()[0]\nstep = jax.pmap(f, devices=[d])\n"
        "y = step(jax.device_put(x, jax.devices()[0]))\n"
        "y = jax.pmap(f, backend='cpu')(jax.device_put(x, jax.devices()[0]))"
    ),
    "Nested pmaps": (
        "@partial(jax.pmap, axis_name='i')  #!\n@partial(jax.pmap, axis_name='j')\ndef f(x):\n"
        "    return jax.lax.psum(x, ('i', 'j'))"
    ),
    "CopyArrays: `x[0]` in many processes": f"{MANY}{OUT}result = x[0]  #!",
    "CopyArrays: local data": f"{OUT}result = x.addressable_shards[0].data.squeeze(0)",
    "CopyArrays: explicit resharding": (
        f"{OUT}x = jax.device_put(x, jax.NamedSharding(mesh, P()))\nresult = x[0]"
    ),
    "CopyArrays: static indices": f"{OUT}for i in jnp.arange(8):\n    print(x[i])  #!",
    "`jax.stages.Lowered`": f"{MANY}compiled = jax.pmap(f).lower(*args).compile()  #!",
    "Custom barriers": (
        "def sync():\n    x = jnp.ones(jax.local_device_count())\n"
        "    x = jax.device_get(jax.pmap(lambda v: jax.lax.psum(v, 'i'), 'i')(x))  #!\n"
        "    assert x[0] == jax.device_count()"
    ),
    "`int` indexing": f"{OUT}result = x[0]  #!",
    "`x[0:1]`, as JAX's changelog advises": f"{OUT}result = x[0:1]  #!",
    "`out_axes=None` for what remains replicated": (
        "f = jax.pmap(lambda x: jax.lax.pmean(x / 2, 'i'), axis_name='i')  #!\ny = f(x)[0]"
    ),
    "`jax.P()` for inputs, not a stack": (
        "n = jax.local_device_count()\nx = jax.tree.map(lambda y: jnp.stack([y] * n), x)  #!\n"
        "y = jax.pmap(f)(x)"
    ),
    "Local data only on the way to the host": f"{OUT}print(np.asarray(jax.device_get(x)[0]))  #!",
    "pmap as the top-level transform": "step = jax.jit(jax.pmap(f))  #!",
    "Incorrectly sharded and donated": (
        "step = jax.pmap(f, donate_argnums=(0,))\nn = jax.local_device_count()\n"
        "state = step(jnp.stack([state] * n), x)  #!"
    ),
    "`device_put_sharded`": "x = jax.device_put_sharded(shards, devices)  #!",
    "`device_put_replicated`": "x = jax.device_put_replicated(x, devices)  #!",
    "Rank: `dot`": f"{MAPPED}def mapped_fn(x):\n    return jnp.dot(x, weights)  #!{CALL}",
    "Rank, option 1": (
        f"{MAPPED}def mapped_fn(x):\n    return jnp.dot(x.squeeze(0), weights)[None]{CALL}"
    ),
    "Rank, option 3": f"{MAPPED}def mapped_fn(x):\n    return jnp.dot(x[0], weights)[None]{CALL}",
    "Rank: reductions": f"{MAPPED}def mapped_fn(x):\n    return jnp.mean(x)  #!{CALL}",
    "Rank: shapes": f"{MAPPED}def mapped_fn(x):\n    return jnp.transpose(x)  #!{CALL}",
    "Rank: layers": f"{MAPPED}def mapped_fn(x):\n    return model.apply(params, x)  #!{CALL}",
    "A mesh by keyword": "mesh = jax.make_mesh(shape=(8,), axis_names=('i',))  #!",
    "The basic map on that mesh": (
        "mesh = jax.make_mesh((8,), ('i',))\n@jax.jit\n"
        "@partial(jax.shard_map, mesh=mesh, in_specs=jax.P('i'), out_specs=jax.P('i'))  #!\n"
        "def f(x):\n    return x * 2"
    ),
    "Unmapped axes": (
        "@jax.jit\n@partial(\n    jax.shard_map, mesh=mesh, "
        "in_specs=(jax.P('i'), jax.P()), out_specs=jax.P()  #!\n)\ndef f(x, y):\n    return x + y"
    ),
    "`jax.jit` is required": (
        "g = jax.shard_map(f, mesh=mesh, in_specs=P('i'), out_specs=P('i'))\ny = g(x)  #!"
    ),
    "Donation goes on the `jit`": (
        "f = jax.shard_map(func, mesh=mesh, in_specs=s, out_specs=s, donate_argnums=(0,))  #!"
    ),
    "`in_specs` replace `in_axes`": "f = jax.shard_map(func, mesh=m, in_axes=0, out_specs=s)  #!",
    "Collectives over mesh axes": (
        "f = jax.shard_map(lambda x: jax.lax.psum(x, 'batch'), mesh=mesh, in_specs=P('i'), "
        "out_specs=P())  #!"
    ),
    "Consistent `out_specs`": (
        "f = jax.shard_map(lambda x: jax.lax.psum(x, 'i'), mesh=mesh, in_specs=P('i'), "
        "out_specs=P('i'))  #!"
    ),
    "Stitching: what raises without it": (
        "step = jax.jit(jax.shard_map(f, mesh=mesh, in_specs=s, out_specs=s))\n"
        "local_data = load(jax.process_index())\ny = step(local_data)  #!"
    ),
    "Stitching": (
        "step = jax.jit(jax.shard_map(f, mesh=mesh, in_specs=s, out_specs=s))\n"
        "local_data = load(jax.process_index())\n"
        "y = step(jax.make_array_from_process_local_data(s, local_data))"
    ),
    "`PmapSharding`": "ok = isinstance(x.sharding, jax.sharding.PmapSharding)  #!",
    "`jax.SingleDeviceSharding`": "s = jax.SingleDeviceSharding(d)  #!",
    "The `unreplicate` anti-pattern": (
        "train_step_pmapped = jax.pmap(lambda x: x)\n"
        "train_state = jax_utils.unreplicate(train_step_pmapped(train_state))  #!"
    ),
    "Its `replicate`": "train_state = jax_utils.replicate({'params': jnp.zeros((3, 4))})  #!",
    "The same by `tree_map`": (
        f"{STEP}out = step(x)\nout = jax.tree.map(lambda x: x[0], out)  #!"
    ),
    "Data loading: reshaped by the device count": (
        f"{STEP}n = jax.local_device_count()\nx = x.reshape((n, -1) + x.shape[1:])  #!\ny = step(x)"
    ),
    "Data loading: prefetched": "it = jax_utils.prefetch_to_device(it, 2)  #!",
}  # fmt: skip


def _rows(heading: str) -> list[tuple[str, str, str]]:
    section = PAGE.read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (?!statement)(.+?) \| (SL\d+) \| (.+) \|$", section, re.M)
    assert len(rows) == section.count("\n|") - 2
    return rows


@pytest.mark.parametrize(("statement", "code", "quote"), _rows("In the guide"))
def test_the_example_of_a_statement(statement: str, code: str, quote: str) -> None:
    text = EXAMPLES[statement]
    reported = [line for line in text.splitlines() if line.endswith("#!")]
    assert any(quote.strip("`") in line for line in reported or text.splitlines())
    target = all_rules()[code].holds_for  # the versions that the statement is about
    settings = Settings(*target) if target is not None else Settings()
    findings = check_text(HEAD + text + "\n", settings=settings).findings
    lines = [(HEAD + text).splitlines()[f.span.line - 1] for f in findings if f.code == code]
    assert lines == reported


def test_every_example_has_a_row() -> None:
    assert {statement for statement, _, _ in _rows("In the guide")} == set(EXAMPLES)


@pytest.mark.parametrize(("statement", "code", "shown"), _rows("Besides the guide"))
def test_a_row_names_an_example_of_its_rule(statement: str, code: str, shown: str) -> None:
    assert 1 <= int(shown.removeprefix("bad ")) <= len(all_rules()[code].bad)


def test_every_rule_has_a_row() -> None:
    rows = _rows("In the guide") + _rows("Besides the guide")
    assert {code for _, code, _ in rows} == set(all_rules())
