"""`--to jit`: what becomes jit of the whole batch, and the reason for what does not."""

from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest

from shardlift import legacy
from shardlift.capture.schema import Capture, Untried, WholeBatchTrial
from shardlift.cli.rewrite_options import OTHER_ORDER
from shardlift.facts import Recorder
from shardlift.rewrite.goal import Goal
from shardlift.verify.compare.array_distance import Tolerance, within
from tests.rewrite.jit_programs import GRADIENT, HOLDS, USUAL, program, recorded
from tests.rewrite.run_programs import imported
from tests.rewrite.test_programs import migrated

CLIPPED = """\
    grads = lax.pmean(grads, axis_name="batch")
    norm = jnp.sqrt(sum(jnp.sum(g**2) for g in jax.tree.leaves(grads)))
    grads = jax.tree.map(lambda g: g / jnp.maximum(1.0, norm), grads)
    return sgd(params, grads), lax.pmean(x=loss, axis_name="batch")"""
SUMS = """\
    rows = lax.psum(batch["x"].shape[0], "batch")
    error = lax.psum(jnp.sum((model.apply(params, batch["x"]) - batch["y"]) ** 2), "batch")
    grads = jax.tree.map(lambda g: lax.psum(g, "batch") / lax.psum(1, "batch"), grads)
    return sgd(params, grads), (error / rows, lax.pmax(jnp.max(batch["x"]), "batch"))"""
NESTED = """\
    def reduce(tree):
        return lax.pmean(tree, "batch")

    devices = lax.axis_size("batch")
    return sgd(params, reduce(grads)), reduce(loss * devices) / devices"""
BODIES = {"usual": USUAL, "clipped": GRADIENT + CLIPPED, "sums": GRADIENT + SUMS}
BODIES["nested"] = GRADIENT + NESTED

MODELS = {
    "flax": """\
from flax import linen as nn

net = nn.Sequential([nn.LayerNorm(), nn.Dense(4), nn.tanh, nn.Dense(2)])


class model:
    init = staticmethod(lambda x: net.init(jax.random.key(0), x))
    apply = staticmethod(net.apply)
""",
    "equinox": """\
import equinox as eqx

net = eqx.nn.MLP(3, 2, 4, 1, key=jax.random.key(0))


class model:
    init = staticmethod(lambda x: eqx.filter(net, eqx.is_array))
    apply = staticmethod(lambda p, x: jax.vmap(eqx.combine(p, net))(x))
""",
}


def written(text: str, facts: Capture | None, root: str = "/p") -> tuple[str, str]:
    """The text after the migration, and why something is left."""
    after, result = migrated({"main.py": text}, root, Goal.JIT, facts)
    reasons = [one.reason for file in result.files for one in file.refused]
    return after["main.py"], "\n".join(reasons)


def refusal(text: str, facts: Capture | None) -> str:
    """Why a step is not rewritten to jit."""
    after, reasons = written(text, facts)
    assert "jit_over_devices" not in after
    said = [line for line in reasons.splitlines() if "jax.jit of the whole batch" in line]
    assert len(said) == 1, reasons
    return said[0]


def test_a_module_that_is_imported_gets_a_helper() -> None:
    after, reasons = written(program(), recorded(program()))
    assert reasons == ""
    call = 'jit_over_devices(step, "batch", in_specs=(jax.P(), jax.P("batch")))'
    assert f"p_step = {call}" in after
    assert "jax.pmap" not in after


def test_a_script_has_it_at_the_site() -> None:
    text = f'{program()}\n\nif __name__ == "__main__":\n    main()\n'
    after, reasons = written(text, recorded(text))
    assert reasons == ""
    assert 'jax.vmap(step, in_axes=None, out_axes=None, axis_name="batch", axis_size=1),' in after
    assert "    out_shardings=jax.NamedSharding(mesh, jax.P()),\n)\n" in after
    assert "jax.pmap" not in after


@pytest.mark.parametrize("name", BODIES)
def test_a_recorded_program_computes_the_same(name: str, tmp_path: Path) -> None:
    _check_recorded(program(BODIES[name]), tmp_path)


@pytest.mark.libraries
@pytest.mark.parametrize("library", MODELS)
def test_models_of_libraries(library: str, tmp_path: Path) -> None:
    pytest.importorskip(library)
    text = program().replace("model = Dense(2)", MODELS[library])
    with jax.numpy_rank_promotion("allow"):
        _check_recorded(text, tmp_path)


def _check_recorded(text: str, folder: Path) -> None:
    """Record a program, rewrite it, and run it again."""
    before, after = folder / "before", folder / "after"
    for one in (before, after):
        one.mkdir()
    (before / "main.py").write_text(text)
    recorder = Recorder()
    with legacy(recorder=recorder):
        expected = imported(before)
    facts = recorder.capture()
    trial = facts.sites[-1].whole_batch
    assert trial is not None
    assert trial.holds
    new, reasons = written(text, facts, str(before))
    assert "jax.pmap" not in new, reasons
    (after / "main.py").write_text(new)
    found = imported(after)
    pairs = zip(jax.tree.leaves(expected), jax.tree.leaves(found), strict=True)
    assert all(within(np.asarray(a), np.asarray(b), Tolerance(**OTHER_ORDER)) for a, b in pairs)


@pytest.mark.parametrize("reason", Untried)
def test_a_step_that_was_not_tried(reason: Untried) -> None:
    trial = WholeBatchTrial(reason, error="TypeError: no" if reason is Untried.FAILED else "")
    said = refusal(program(), recorded(program(), trial))
    assert "it was not tried on the whole batch: " in said
    assert ("TypeError: no" in said) is (reason is Untried.FAILED)


@pytest.mark.parametrize("size", [1.01e-5, 0.3])
def test_a_step_that_differs(size: float) -> None:
    trial = replace(HOLDS, difference=size)
    said = refusal(program(), recorded(program(), trial))
    assert f"output[0] differs by {size:.1e} of its largest number" in said


def test_a_step_without_a_recorded_run() -> None:
    assert "no recorded run of this text shows" in written(program(), None)[1]
    other = replace(recorded(program()), sources={"main.py": "another"})
    assert "no recorded run of this text shows" in written(program(), other)[1]


def test_a_step_that_was_tried_in_another_layout() -> None:
    trial = replace(HOLDS, joined=(0, 1))
    said = refusal(program(), recorded(program(), trial))
    assert "argument 0 is laid out in another way than in the recorded run" in said


def test_a_step_inside_of_another_program() -> None:
    facts = recorded(program())
    facts = replace(facts, sites=(replace(facts.sites[0], transformed=1),))
    after, reasons = written(program(), facts)
    assert "jit_over_devices" not in after
    assert "called inside of another program" in reasons


def test_donated_arguments_stay_donated() -> None:
    option = 'axis_name="batch", static_broadcasted_argnums=(), donate_argnums=0)\n'
    text = program().replace('axis_name="batch")\n', option, 1)
    assert "donate_argnums=0" in written(text, recorded(text))[0]
