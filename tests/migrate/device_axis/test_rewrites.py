"""What `--to global` writes, to the letter, from a program and what a run proved of it."""

from __future__ import annotations

import pytest

from shardlift.capture.schema import Capture, Collective, Leaf, Proof, Site
from shardlift.migrate.goal import Goal
from tests.migrate.test_programs import PLACED, migrated

HEAD = """\
import jax
from flax import jax_utils
from flax.training import checkpoints, common_utils


def train_step(state, batch, key):
    grads = jax.grad(loss)(state, batch, key)
    return update(state, jax.lax.pmean(grads, "batch")), metrics(state, batch)


p_step = jax.pmap(train_step, axis_name="batch", donate_argnums=(0,))
"""
LOOP = """

def train(loader, state, key):
    n = jax.local_device_count()
    state = jax_utils.replicate(state)
    for batch in loader:
        batch = common_utils.shard(batch)  # a row a device
        key, use = jax.random.split(key)
        state, metrics = p_step(state, batch, jax.random.split(use, n))
        print(jax_utils.unreplicate(metrics))
        checkpoints.save_checkpoint("dir", (jax_utils.unreplicate(state), 1), 1)
        kept = jax_utils.unreplicate(state)
    return jax_utils.unreplicate(state), kept
"""
SITE = """\
p_step = jax.jit(
    shard_map_at_call(
        train_step,
        "batch",
        in_specs=(jax.P(), jax.P("batch"), jax.P("batch")),
        out_specs=jax.P(),
    ),
    donate_argnums=(0,),
)
"""
AFTER = """

def train(loader, state, key):
    n = jax.local_device_count()
    state = jax.device_put(
        jax.tree.map(jax.numpy.copy, state),
        jax.NamedSharding(device_mesh("batch"), jax.P()),
    )
    for batch in loader:
        key, use = jax.random.split(key)
        state, metrics = p_step(state, batch, jax.random.split(use, n))
        print(metrics)
        checkpoints.save_checkpoint("dir", (state, 1), 1)
        kept = jax.tree.map(jax.numpy.copy, state)
    return state, kept
"""


def proven(
    *needs: tuple[int, ...] | None, why: str = "", collectives: tuple[Collective, ...] = ()
) -> Capture:
    """A run in which `train_step` was called, and what has to be equal for each output."""
    proofs = tuple(
        Proof(
            f"output[{k}]",
            1,
            need,
            f"output[{k}]" if need is None else "",
            why if need is None else "",
        )
        for k, need in enumerate(needs)
    )
    leaves = tuple(
        Leaf(f"output[{k}]['a']", "float32", (8,), 32, 0, "P('batch')", "in place")
        for k in range(len(needs))
    )
    site = Site(
        "main.py", 11, "train_step", calls=3, outputs=leaves, proofs=proofs, collectives=collectives
    )
    return Capture(sites=(site,))


def written(text: str, facts: Capture | None = None, strict: bool = False) -> str:
    return migrated({"main.py": text}, goal=Goal.GLOBAL, facts=facts, strict=strict)[0]["main.py"]


def findings(text: str, facts: Capture | None = None, strict: bool = False) -> list[str]:
    _, result = migrated({"main.py": text}, goal=Goal.GLOBAL, facts=facts, strict=strict)
    return [place.reason for file in result.files for place in file.refused]


def test_what_a_person_would_write() -> None:
    after = written(HEAD + LOOP, proven((0,), ()))
    assert after.endswith(SITE + AFTER)
    assert "jax_utils" not in after
    assert findings(HEAD + LOOP, proven((0,), ())) == []


def test_a_returned_state_that_others_have_is_a_copy() -> None:
    later = "    def later():\n        print(jax_utils.unreplicate(state))\n\n    n ="
    loop = LOOP.replace("    n =", later).replace("loader, state", "loader, start")
    text = HEAD + loop.replace("jax_utils.replicate(state)", "jax_utils.replicate(start)")
    assert "return jax.tree.map(jax.numpy.copy, state), kept" in written(text, proven((0,), ()))


def test_without_facts_the_batch_alone_changes() -> None:
    after = written(HEAD + LOOP)
    assert 'in_specs=(jax.P("batch"), jax.P("batch"), jax.P("batch"))' in after
    taken = "    state = jax.tree.map(lambda x: x[0], state)\n    grads = jax.grad(loss)"
    assert f"{taken}(state, batch, key[0])" in after
    rows = "jax.tree.map(lambda x: jax.numpy.expand_dims(x, 0), "
    assert f"return {rows}(update(" in after
    assert "    state = jax_utils.replicate(state)\n" in after
    assert all("--facts FILE" in said for said in findings(HEAD + LOOP))


def test_an_output_that_is_not_proven_keeps_its_axis() -> None:
    why = "comes from argument batch, first used by mul at main.py:7 (loss)"
    facts = proven((0,), None, why=why)
    after = written(HEAD + LOOP, facts)
    assert 'out_specs=(jax.P(), jax.P("batch")),\n' in after
    rows = "jax.tree.map(lambda x: jax.numpy.expand_dims(x, 0), "
    assert f'"batch")), {rows}metrics(state, batch))' in after
    (said,) = findings(HEAD + LOOP, facts)
    assert said.startswith("output[1] of train_step keeps its device axis: output[1] is not proven")
    assert said.endswith(f"{why}: return its lax.pmean, or let it stay one per device")


def test_an_output_that_needs_a_row_to_be_equal_keeps_its_axis() -> None:
    after = written(HEAD + LOOP, proven((0, 2), (0,)))
    assert not PLACED.search(after)  # the state comes back, and depends on the keys
    assert findings(HEAD + LOOP, proven((0, 2), (0,)))


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("    stash(state)\n", "is given to stash"),
        ("    history[0] = state\n", "is put into `history[0]`"),
        ("    total = total + state\n", "is used in `total + state`"),
        ("    print(state.shape)\n", "shows its shape"),
        ("    print(f'{state}')\n", "is used in"),
        ("    global held\n    held = state\n", "which nothing here reads"),
        ("    box.state = state\n", "is put into `box.state`"),
    ],
)
def test_a_state_that_goes_elsewhere_keeps_its_axis(line: str, why: str) -> None:
    text = HEAD + LOOP.replace("    return jax_utils", f"{line}    return jax_utils")
    said = findings(text, proven((0,), ()))
    assert any(why in one and "main.py:" in one for one in said), said
    assert not PLACED.search(written(text, proven((0,), ())))


def test_facts_of_another_function_on_the_line_are_none() -> None:
    facts = proven((0,), ())
    other = Capture(sites=(Site("main.py", 11, "another", calls=1, proofs=facts.sites[0].proofs),))
    assert not PLACED.search(written(HEAD + LOOP, other))


def test_comments_inside_a_call_are_not_lost() -> None:
    text = HEAD + LOOP.replace(
        "jax_utils.replicate(state)", "jax_utils.replicate(\n        state  # mine\n    )"
    )
    assert "# mine" in written(text, proven((0,), ()))
    assert any("comments" in said for said in findings(text, proven((0,), ())))


def test_programs_of_many_processes_keep_calling_with_their_own_part() -> None:
    start = "\n\njax.distributed.initialize()\n"
    after = written(HEAD + LOOP + start, proven((0,), ()))
    assert "p_step = host_local_arrays(\n    jax.jit(\n        shard_map_on_devices(" in after
    assert "def host_local_arrays(" in after


def test_strict_takes_gradients_of_varying_values() -> None:
    after = written(HEAD + LOOP, proven((0,), ()), strict=True)
    assert 'jax.grad(loss)(jax.lax.pcast(state, "batch", to="varying"), batch, key[0])' in after
    assert "        check_vma=True,\n" in after


def test_strict_leaves_a_gradient_through_a_collective_alone() -> None:
    through = (Collective("psum", ("batch",), 1, 4, gradient=True),)
    facts = proven((0,), (), collectives=through)
    after = written(HEAD + LOOP, facts, strict=True)
    assert "pcast" not in after
    assert "check_vma=True" not in after
    assert any("check_vma stays off" in one for one in findings(HEAD + LOOP, facts, strict=True))


def test_lines_of_findings_are_those_of_the_file_as_it_is() -> None:
    text = HEAD + LOOP + "\n\nother = jax.pmap(train_step, in_axes=-1)\n"
    _, result = migrated({"main.py": text}, goal=Goal.GLOBAL, facts=proven((0,), ()))
    (file,) = result.files
    said = {place.span.line for place in file.refused if "from the end" in place.reason}
    assert said == {text.splitlines().index("other = jax.pmap(train_step, in_axes=-1)") + 1}
