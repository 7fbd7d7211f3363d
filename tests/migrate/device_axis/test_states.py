"""States of which some fields stay one per device: the text, and what is left as it is."""

from __future__ import annotations

import pytest

from shardlift.capture.schema import Capture, Leaf, Proof, Site
from shardlift.migrate.goal import Goal
from shardlift.source.settings import Settings
from tests.migrate.test_programs import migrated

HEAD = """\
import functools
import jax
import jax.numpy as jnp
from flax import jax_utils, struct
from flax.training import common_utils, train_state
from typing import NamedTuple
"""
NAMED = """
class State(NamedTuple):
    params: jax.Array
    stats: jax.Array
"""
TRAIN_STATE = """
class State(train_state.TrainState):
    stats: jax.Array
"""
BODY = """
def step(state, x):
    params = state.params - jax.lax.pmean(x.mean(), "i")
    return {new}, x.sum()


p_step = jax.pmap(step, axis_name="i")
state = jax_utils.replicate({made})
for x in data:
    state, loss = p_step(state, common_utils.shard(x))
{read}
"""
READ = "save(jax_utils.unreplicate(state))"


def text_of(
    classes: str = NAMED,
    new: str = "State(params, state.stats + x)",
    made: str = "State(jnp.ones(3), jnp.zeros(3))",
    read: str = READ,
) -> str:
    return HEAD + classes + BODY.format(new=new, made=made, read=read)


def capture(text: str, key: str = ".{}", leaves: tuple[str, ...] = ("params", "stats")) -> Capture:
    names = {name: "output[0]" + key.format(name) for name in ("params", "stats")}
    fields = {names["params"]: ("0" + key.format("params"),), names["stats"]: ("1",)}
    why = "comes from argument x"
    state = Proof("output[0]", 2, (0, 1), names["stats"], why, (names["stats"],), fields)
    line = next(k for k, one in enumerate(text.splitlines(), 1) if "jax.pmap" in one)
    arrays = [names[name] for name in leaves] + ["output[1]"]
    outputs = tuple(Leaf(p, "float32", (8, 3), 4, 0, "P('i')", "in place") for p in arrays)
    proofs = (state, Proof("output[1]", 1, (1,)))
    site = Site("m.py", line, "step", axis_size=8, calls=1, outputs=outputs, proofs=proofs)
    return Capture(sites=(site,))


def after_of(text: str, facts: Capture, **options: Settings) -> tuple[str, list[str]]:
    after, migration = migrated({"m.py": text}, goal=Goal.GLOBAL, facts=facts, **options)  # type: ignore[arg-type]
    return after["m.py"], [one.reason for file in migration.files for one in file.refused]


# ---- left as it is, with the reason


@pytest.mark.parametrize(
    "text",
    [
        text_of(read="save(state)"),
        text_of(read='save(jax_utils.unreplicate({"model": state}))'),
        text_of(read="both = [state, state]\nsave(jax_utils.unreplicate(both))"),
        text_of(read="print(state.params)\n" + READ),
        text_of("class State:\n    stats: jax.Array\n    params: jax.Array\n"),
        text_of("from states import State\n"),
        text_of().replace(
            "state = jax_utils.replicate(State(jnp.ones(3), jnp.zeros(3)))",
            "state, other = jax_utils.replicate(State(jnp.ones(3), jnp.zeros(3))), 1",
        ),
    ],
)
def test_a_state_that_is_not_understood_keeps_its_axis(text: str) -> None:
    after, said = after_of(text, capture(text))
    assert "stats=" not in after
    assert any("keeps its device axis" in one for one in said)


def test_every_bit_is_kept_with_exact() -> None:
    text = text_of()
    after, _ = after_of(text, capture(text), settings=Settings(exact=True))
    assert "stats=" not in after


def test_facts_without_fields_change_nothing() -> None:
    text = text_of()
    facts = capture(text)
    old = Proof("output[0]", 2, (0, 1), "output[0].stats", "a reason", ("output[0].stats",))
    site = Site("m.py", facts.sites[0].line, "step", axis_size=8, calls=1, proofs=(old,))
    after, said = after_of(text, Capture(sites=(site,)))
    assert "stats=" not in after
    assert any("only output[0].stats may differ" in one for one in said)


def test_a_rest_that_needs_the_field_keeps_its_axis() -> None:
    text = text_of()
    facts = capture(text)
    fields = facts.sites[0].proofs[0].fields
    fields["output[0].params"] = ("0.params", "0.stats")
    after, _ = after_of(text, facts)
    assert "stats=" not in after


# ---- rewritten


def test_a_named_tuple_has_a_spec_per_field() -> None:
    text = text_of()
    after, said = after_of(text, capture(text))
    assert 'State(params=jax.P(), stats=jax.P("i"))' in after
    assert "    state = state._replace(stats=state.stats[0])\n" in after
    assert "return State(params, jnp.expand_dims(state.stats + x, 0))," in after
    assert "save(state._replace(stats=state.stats[0]))" in after
    assert "jnp.stack([state.stats] * jax.device_count())" in after
    assert "jax_utils" not in after
    assert any("output[0]['stats'] of step keeps its device axis" in one for one in said)
    assert not any("argument 0 of step" in one for one in said)


def test_a_dict_has_a_spec_per_key() -> None:
    text = text_of(
        "",
        '{"params": params, "stats": state["stats"] + x}',
        '{"params": jnp.ones(3), "stats": jnp.zeros(3)}',
    ).replace("state.params", 'state["params"]')
    after, _ = after_of(text, capture(text, "['{}']", leaves=()))
    assert '{"params": jax.P(), "stats": jax.P("i")}' in after
    rows = 'jax.tree.map(lambda x: x[0], state["stats"])'
    assert f'    state = {{**state, "stats": {rows}}}\n' in after
    assert f'save({{**state, "stats": {rows}}})' in after


@pytest.mark.parametrize("kind", ["call", "decorator", "partial"])
def test_a_state_with_static_fields_makes_its_own_specs(kind: str) -> None:
    text = text_of(TRAIN_STATE, "state.apply_gradients(grads=x, stats=x)", "create()")
    if kind == "decorator":
        text = text.replace('\n\np_step = jax.pmap(step, axis_name="i")', "")
        text = text.replace("def step", '@functools.partial(jax.pmap, axis_name="i")\ndef step')
        text = text.replace("p_step(", "step(")
    elif kind == "partial":
        text = text.replace("pmap(step,", "pmap(functools.partial(step),")
    after, _ = after_of(text, capture(text))
    assert "def state_specs(state):\n" in after
    assert 'return state.replace(params=jax.P(), stats=jax.P("i"))' in after
    assert 'in_specs=(state_specs(state), jax.P("i"))' in after
    assert 'out_specs=(state_specs(state), jax.P("i"))' in after
    assert ")(state, x)" in after
    assert "    new_state = state.apply_gradients(grads=x, stats=x)\n" in after
    stats = "jnp.expand_dims(new_state.stats, 0)"
    assert f"return new_state.replace(stats={stats})," in after
    assert ("lambda function: jax.jit(" in after) == (kind == "decorator")


def test_a_function_that_syncs_the_field_stays() -> None:
    sync = "sync = jax.pmap(lambda s: jax.lax.pmean(s, 'i'), 'i')\n"
    read = f"state = state._replace(stats=sync(state.stats))\n{READ}"
    text = text_of(NAMED + sync, read=read)
    facts = capture(text.replace(sync, "\n"))
    after, _ = after_of(text, facts)
    assert 'State(params=jax.P(), stats=jax.P("i"))' in after
    assert "state = state._replace(stats=sync(state.stats))" in after


def test_a_key_per_device_stays_beside_a_whole_state() -> None:
    made = "state = state._replace(stats=jax.random.split(key, jax.local_device_count()))\n"
    text = text_of(new="State(params, state.stats)")
    text = text.replace("for x in data", f"{made}for x in data")
    facts = capture(text)
    facts.sites[0].proofs[0].fields["output[0].stats"] = ("0.stats",)
    after, said = after_of(text, facts)
    assert 'State(params=jax.P(), stats=jax.P("i"))' in after
    assert any("it has one row per device" in one for one in said)


def test_the_rest_is_copied_where_it_may_be_donated() -> None:
    text = text_of(read="kept = jax_utils.unreplicate(state)\nuse(kept)\n" + READ)
    text = text.replace("axis_name", "donate_argnums=(0,), axis_name")
    after, _ = after_of(text, capture(text))
    assert "jax.tree.map(jnp.copy, state._replace(stats=state.stats[0]))" in after


def test_rows_are_taken_together_above_an_inner_function() -> None:
    inner = "    def scaled(x):\n        return x * 2\n\n    x = scaled(x)\n"
    text = text_of().replace("    params = state", inner + "    params = state")
    text = text.replace("common_utils.shard(x)", "jax.device_get(x)")
    after, _ = after_of(text, capture(text))
    taken = after.partition("def step(state, x):\n")[2].partition("    def scaled")[0]
    assert taken.count("\n") == 3, taken
    assert taken.startswith("    state = state._replace(stats=state.stats[0])\n    x = ")
    assert taken.endswith("\n\n")
