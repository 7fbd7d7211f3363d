"""What `--to global` writes, to the letter, from a program and what a run proved of it."""

from dataclasses import replace

import pytest

from shardlift.capture.schema import Capture, SiteFacts
from shardlift.rewrite.goal import Goal
from shardlift.source.settings import Settings
from tests.rewrite.captures import proof
from tests.rewrite.test_programs import PLACED, migrated

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
        per_row_of(train_step, in_axes=(None, None, 0), out_axes=None),
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
        jax.tree.map(
            lambda x: jax.numpy.copy(x) if isinstance(x, jax.Array) else np.array(x),
            state,
        ),
        jax.NamedSharding(device_mesh("batch"), jax.P()),
    )
    for batch in loader:
        key, use = jax.random.split(key)
        state, metrics = p_step(state, batch, jax.random.split(use, n))
        print(metrics)
        checkpoints.save_checkpoint("dir", (state, 1), 1)
        kept = jax.tree.map(jax.numpy.copy, state)
    return jax.tree.map(jax.numpy.copy, state), kept
"""


def proven(*needs: tuple[int, ...] | None, why: str = "") -> Capture:
    """A run in which `train_step` was called, and what has to be equal for each output."""
    proofs = tuple(proof(f"output[{k}]", need, "['a']") for k, need in enumerate(needs))
    proofs = tuple(replace(one, why=one.why and why) for one in proofs)
    site = SiteFacts("main.py", 11, "train_step", calls=3, proofs=proofs)
    return Capture(sites=(site,))


def written(text: str, facts: Capture | None = None) -> str:
    return migrated({"main.py": text}, goal=Goal.GLOBAL, facts=facts)[0]["main.py"]


def findings(text: str, facts: Capture | None = None) -> list[str]:
    _, result = migrated({"main.py": text}, goal=Goal.GLOBAL, facts=facts)
    return [place.reason for file in result.files for place in file.refused]


def test_what_a_person_would_write() -> None:
    after = written(HEAD + LOOP, proven((0,), ()))
    assert after.endswith(SITE + AFTER)
    assert "jax_utils" not in after
    assert findings(HEAD + LOOP, proven((0,), ())) == []


def test_python_numbers_get_the_type_that_flax_gives_them() -> None:
    assert "import numpy as np\n" in written(HEAD + LOOP, proven((0,), ()))
    older = Settings(target=(0, 9), flax=(0, 12, 6))
    facts = proven((0,), ())
    after = migrated({"main.py": HEAD + LOOP}, goal=Goal.GLOBAL, facts=facts, settings=older)[0]
    assert "jax.tree.map(jax.numpy.copy, state)" in after["main.py"]


@pytest.mark.parametrize(
    ("read", "after"),
    [
        ("print(f'{jax_utils.unreplicate(state)}')", "print(f'{state}')"),
        ("print(jax_utils.unreplicate(state)['a'].tolist())", "print(state['a'].tolist())"),
        ("print({'a': [jax_utils.unreplicate(state)]})", "print({'a': [state]})"),
        (
            "print(jax_utils.unreplicate(state if n else state)['a'].tolist())",
            "print((state if n else state)['a'].tolist())",
        ),
        ("keep(jax_utils.unreplicate(state))", "keep(jax.tree.map(jax.numpy.copy, state))"),
    ],
)
def test_a_donated_state_that_is_read_at_once_is_not_copied(read: str, after: str) -> None:
    text = HEAD + LOOP.replace("        kept =", f"        {read}\n        kept =")
    assert f"        {after}\n" in written(text, proven((0,), ()))


def test_a_returned_state_that_others_have_is_a_copy() -> None:
    later = "    def later():\n        print(jax_utils.unreplicate(state))\n\n    n ="
    loop = LOOP.replace("    n =", later).replace("loader, state", "loader, start")
    text = HEAD + loop.replace("jax_utils.replicate(state)", "jax_utils.replicate(start)")
    assert "return jax.tree.map(jax.numpy.copy, state), kept" in written(text, proven((0,), ()))


def test_without_facts_the_batch_alone_changes() -> None:
    after = written(HEAD + LOOP, Capture())
    assert 'in_specs=(jax.P("batch"), jax.P("batch"), jax.P("batch"))' in after
    assert "per_row_of(train_step, in_axes=(0, None, 0), out_axes=0)," in after
    assert "    state = jax_utils.replicate(state)\n" in after
    assert all("--facts FILE" in said for said in findings(HEAD + LOOP, Capture()))


def test_an_output_that_is_not_proven_keeps_its_axis() -> None:
    why = "comes from argument batch, first used by mul at main.py:7 (loss)"
    facts = proven((0,), None, why=why)
    after = written(HEAD + LOOP, facts)
    assert 'out_specs=(jax.P(), jax.P("batch")),\n' in after
    assert "per_row_of(train_step, in_axes=(None, None, 0), out_axes=(None, 0))," in after
    (said,) = findings(HEAD + LOOP, facts)
    assert said.startswith(
        "output[1] of train_step keeps its device axis: output[1]['a'] is not proven"
    )
    assert said.endswith(
        f"{why}: return its lax.pmean, or return it apart from the rest, and let it stay one per "
        "device"
    )


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
    other = Capture(
        sites=(SiteFacts("main.py", 11, "another", calls=1, proofs=facts.sites[0].proofs),)
    )
    assert not PLACED.search(written(HEAD + LOOP, other))


def test_comments_inside_a_call_are_not_lost() -> None:
    text = HEAD + LOOP.replace(
        "jax_utils.replicate(state)", "jax_utils.replicate(\n        state  # mine\n    )"
    )
    assert "# mine" in written(text, proven((0,), ()))
    assert any("comments" in said for said in findings(text, proven((0,), ())))


def test_lines_of_findings_are_those_of_the_file_as_it_is() -> None:
    text = HEAD + LOOP + "\n\nother = jax.pmap(train_step, in_axes=-1)\n"
    _, result = migrated({"main.py": text}, goal=Goal.GLOBAL, facts=proven((0,), ()))
    (file,) = result.files
    said = {place.span.line for place in file.refused if "count from the end" in place.reason}
    assert said == {text.splitlines().index("other = jax.pmap(train_step, in_axes=-1)") + 1}
