"""A step is tried on the whole batch: right steps agree, wrong ones do not, some are not tried."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import shardlift
from shardlift.capture.schema import Untried, WholeBatchTrial
from shardlift.facts import Recorder
from shardlift.recording import whole_batch_trial as whole_batch

N = 8
ROWS = np.random.default_rng(0).normal(size=(N, 4, 3)).astype(np.float32)
BATCH = {"x": ROWS, "y": ROWS[:, :, :2] * 2 + 1, "mask": np.ones((N, 4), np.float32)}
PARAMS = {"w": jnp.full((3, 2), 0.1), "b": jnp.zeros(2)}


@pytest.fixture(autouse=True)
def slow_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a loaded machine compiles, the step is tried."""
    monkeypatch.setattr(whole_batch, "SLOWEST", float("inf"))


def model(params, x):
    return jnp.tanh(x @ params["w"] + params["b"][None])


def loss_of(params, batch):
    return jnp.mean((model(params, batch["x"]) - batch["y"]) ** 2)


def mean(tree):
    return lax.pmean(tree, "batch")


def total(tree):
    return lax.psum(tree, "batch")


def sgd(params, grads, rate=0.1):
    return jax.tree.map(lambda p, g: p - jnp.asarray(rate, p.dtype) * g, params, grads)


def trained(loss_fn=loss_of, reduce=mean, rate=0.1):
    """A step of gradient descent."""

    def step(params, batch):
        loss, grads = jax.value_and_grad(loss_fn)(params, batch)
        return sgd(params, reduce(grads), rate), mean(loss)

    return step


def clipped(grads):
    norm = jnp.sqrt(sum(jnp.sum(g**2) for g in jax.tree.leaves(grads)))
    return jax.tree.map(lambda g: g / (norm * 100), grads)


def reduced_in_a_loop(params, batch):
    def turn(params, _):
        grads = jax.grad(loss_of)(params, batch)
        return sgd(params, mean(grads)), mean(loss_of(params, batch))

    return lax.scan(turn, params, None, 3)


def sums(params, batch):
    error = jnp.sum((model(params, batch["x"]) - batch["y"]) ** 2)
    return total(error) / total(batch["x"].shape[0]), lax.pmax(jnp.max(batch["x"]), "batch")


def normalised(params, batch):
    x = batch["x"]
    x = (x - x.mean(axis=0, keepdims=True)) / (x.std(axis=0, keepdims=True) + 1e-3)
    return jnp.mean((model(params, x) - batch["y"]) ** 2)


def psum_then_clip(params, batch):
    """Eight times the gradient, which the clipping hides from the outputs."""
    grads = total(jax.grad(loss_of)(params, batch))
    return sgd(params, clipped(grads))


def per_example(params, batch):
    loss = jnp.mean((model(params, batch["x"]) - batch["y"]) ** 2, axis=-1)
    return loss, mean(loss.mean())


RIGHT = {
    "gradient descent": trained(),
    "a sum of gradients, divided": trained(
        reduce=lambda g: jax.tree.map(lambda x: x / total(1), total(g))
    ),
    "a loop over steps": reduced_in_a_loop,
    "sums, counts and a maximum": sums,
    "clipped after the mean, a jitted part": trained(
        jax.jit(loss_of), reduce=lambda g: clipped(mean(g))
    ),
    "an output of each example": per_example,
}
WRONG = {
    "batch norm": trained(normalised),
    "a sum of means": trained(reduce=total),
    "hidden by clipping": psum_then_clip,
    "hidden by a rate of nothing": trained(normalised, rate=0.0),
}


def trial_of(step, *args, calls=1, **options) -> WholeBatchTrial | None:
    recorder = Recorder()
    with recorder.observing():
        mapped = recorder.pmap(shardlift.pmap)(step, **{"axis_name": "batch", **options})
        for _ in range(calls):
            mapped(*args)
        capture = recorder.capture()
    assert not [text for text in capture.unseen if "error of the recorder" in text]
    return capture.sites[0].whole_batch


def replicated(tree=PARAMS):
    return shardlift.replicate(tree, axis_name="batch")


@pytest.mark.parametrize("name", RIGHT)
def test_right_steps_agree(name):
    trial = trial_of(RIGHT[name], replicated(), BATCH)
    assert trial is not None
    assert trial.holds, trial
    assert trial.joined == (1,)


@pytest.mark.parametrize("name", WRONG)
def test_wrong_steps_do_not(name):
    trial = trial_of(WRONG[name], replicated(), BATCH)
    assert trial is not None
    assert trial.untried is None
    assert trial.difference > 100 * trial.bound
    assert trial.at


def test_short_types_have_a_wider_bound():
    short = jax.tree.map(lambda x: jnp.asarray(x, jnp.bfloat16), (replicated(), BATCH))
    right, wrong = trial_of(trained(), *short), trial_of(trained(normalised), *short)
    assert right.holds
    assert right.bound == 4 * 2**-7
    assert not wrong.holds


def test_other_ways_to_give_arguments():
    def step(params, rate, batch, *, extra):
        loss, grads = jax.value_and_grad(loss_of)(params, batch)
        return sgd(params, mean(grads), rate), mean(loss) + mean(extra["x"].mean())

    batch = {**BATCH, "x": np.moveaxis(BATCH["x"], 0, 1)}
    given = {"in_axes": (None, None, {"x": 1, "y": 0, "mask": 0}), "static_broadcasted_argnums": 1}
    trial = trial_of(lambda p, r, b: step(p, r, b, extra=b), PARAMS, 0.1, batch, **given)
    assert trial.holds
    assert trial.joined == (2,)
    donated = jax.device_put(BATCH)  # copied before the call
    assert trial_of(trained(), replicated(), donated, donate_argnums=(0, 1)).holds


@pytest.mark.parametrize("nested", [False, True])
def test_what_a_trial_uses_is_not_counted(nested):
    def step(params, batch):
        params = jax.tree_map(mean, params)
        more = double(jnp.ones(1))[0] if nested else 0.0
        return params, mean(loss_of(params, batch)) + more

    recorder = Recorder()
    with recorder.observing(), shardlift.legacy(recorder=recorder) as uses:
        double = jax.pmap(lambda x: x * 2)
        jax.pmap(step, axis_name="batch")(replicated(), BATCH)
        inner, outer = recorder.capture().sites
    assert outer.whole_batch.untried is (Untried.FAILED if nested else None)  # it was traced
    # A nested pmap needs a mesh axis, so the program itself is traced twice.
    assert uses["jax.tree_map"] == (2 if nested else 1)
    assert (inner.nested, inner.transformed) == (2 if nested else 0, 0)
    assert outer.reads == ()


def test_rows_that_are_equal_show_nothing_until_they_differ():
    equal = jax.tree.map(lambda x: np.stack([x[0]] * N), BATCH)
    recorder = Recorder()
    with recorder.observing():
        mapped = recorder.pmap(shardlift.pmap)(trained(), axis_name="batch")
        mapped(replicated(), equal)
        assert recorder.capture().sites[0].whole_batch == WholeBatchTrial(Untried.EQUAL_ROWS)
        mapped(replicated(), equal)
        mapped(replicated(), BATCH)
        assert recorder.capture().sites[0].whole_batch.holds


def printing(params, batch):
    jax.debug.print("loss {}", batch["x"].sum())
    return mean(loss_of(params, batch))


def in_groups(params, batch):
    return lax.psum(loss_of(params, batch), "batch", axis_index_groups=[[0, 1, 2, 3], [4, 5, 6, 7]])


def by_index(params, batch):
    key = jax.random.fold_in(jax.random.key(0), lax.axis_index("batch"))
    return mean(loss_of(params, batch) + jax.random.uniform(key))


UNTRIED = {
    "printed": (printing, BATCH, Untried.SIDE_EFFECTS),
    "in groups": (in_groups, BATCH, Untried.COLLECTIVE),
    "the index of the device": (by_index, BATCH, Untried.COLLECTIVE),
    "nothing is reduced": (loss_of, BATCH, Untried.NO_COLLECTIVE),
    "one number per device": (
        lambda p, k: mean(p["b"].sum() * k),
        np.arange(8.0, dtype=np.float32),
        Untried.NO_ROWS,
    ),
    "one key per device": (
        lambda p, k: mean(p["b"][0] + jax.random.uniform(k)),
        jax.random.split(jax.random.key(0), N),
        Untried.RANDOM_KEYS,
    ),
    "one raw key per device": (
        lambda p, k: mean(p["b"][0] + jax.random.uniform(k)),
        jax.random.split(jax.random.PRNGKey(0), N),
        Untried.RANDOM_KEYS,
    ),
    "one raw key of four words per device": (
        lambda p, k: mean(p["b"][0] + k[0].astype(jnp.float32)),
        np.arange(4 * N, dtype=np.uint32).reshape(N, 4),
        Untried.RANDOM_KEYS,
    ),
    "an error": (lambda p, b: mean(b["x"].reshape(2, 6).mean() + p["b"][0]), BATCH, Untried.FAILED),
}


@pytest.mark.parametrize("name", UNTRIED)
def test_untried(name, capfd):
    step, batch, reason = UNTRIED[name]
    trial = trial_of(step, replicated(), batch)
    jax.effects_barrier()
    assert trial.untried is reason
    assert not trial.holds
    assert ("reshape" in trial.error) is (reason is Untried.FAILED)
    assert capfd.readouterr().out.count("loss") == (N if name == "printed" else 0)


def test_one_device_shows_nothing():
    args = jax.tree.map(lambda x: x[:1], (replicated(), BATCH))
    assert trial_of(trained(), *args).untried is Untried.ONE_DEVICE


@pytest.mark.parametrize(
    ("limit", "reason"), [("LARGEST", Untried.TOO_LARGE), ("SLOWEST", Untried.TOO_SLOW)]
)
def test_what_would_take_long_is_not_tried(monkeypatch, limit, reason):
    monkeypatch.setattr(whole_batch, limit, 0)
    assert trial_of(trained(), replicated(), BATCH).untried is reason


def test_the_program_computes_and_draws_the_same():
    results = []
    for observe in (lambda pmap: pmap, Recorder().pmap):

        def step(params, batch):
            params = jax.tree.map(lambda p: p * np.float32(np.random.rand()), params)
            return trained()(params, batch)

        np.random.seed(3)
        mapped = observe(shardlift.pmap)(step, axis_name="batch")
        results.append((mapped(replicated(), BATCH), np.random.rand()))
    plain, recorded = results
    assert jax.tree.all(jax.tree.map(np.array_equal, plain, recorded))
