"""Training programs of the pmap era, for `--to global`: state replicated, batches sharded.

Each is one file, or several by path; `main()` of the first returns what the program has learnt,
on the host. `GLOBAL` are those in which a state loses its device axis when a run was recorded,
`PARTLY` those in which something else does, `STACKED` those that keep all of it: each with what
its findings say.
"""

_HEAD = """\
import functools
import jax
import jax.numpy as jnp
import numpy as np

rng = np.random.RandomState(0)


def data(rows):
    x = rng.randn(rows, 3).astype(np.float32)
    return {"x": x, "y": x[:, :2] * 2 + 1}


def init():
    return {"w": jnp.ones((3, 2)) * 0.1, "b": jnp.zeros(2), "step": jnp.int32(0)}


def loss_fn(params, batch):
    return jnp.mean((batch["x"] @ params["w"] + params["b"] - batch["y"]) ** 2)


def update(state, batch):
    loss, grads = jax.value_and_grad(loss_fn, allow_int=True)(state, batch)
    grads = jax.lax.pmean({"w": grads["w"], "b": grads["b"]}, "batch")
    new = {k: state[k] - 0.1 * grads[k] for k in grads}
    return {**new, "step": state["step"] + 1}, {"loss": jax.lax.pmean(loss, "batch")}

"""
HELPERS = """
def replicate(tree):
    return jax.device_put_replicated(tree, jax.local_devices())


def unreplicate(tree):
    return jax.tree_util.tree_map(lambda x: x[0], tree)


def shard(xs):
    n = jax.local_device_count()
    return jax.tree_util.tree_map(lambda x: x.reshape((n, -1) + x.shape[1:]), xs)

"""
_HOST = "jax.tree_util.tree_map(np.asarray, {})"


def _program(body: str, helpers: bool = True) -> dict[str, str]:
    return {"main.py": _HEAD + (HELPERS if helpers else "") + body.lstrip("\n")}


GLOBAL: dict[str, dict[str, str]] = {
    "the standard loop": _program("""
p_step = jax.pmap(update, axis_name="batch", donate_argnums=(0,))


def main():
    state = replicate(init())
    losses = []
    for _ in range(3):
        batch = data(16)
        batch = shard(batch)
        state, metrics = p_step(state, batch)
        losses.append(float(unreplicate(metrics)["loss"]))
    return losses, jax.device_get(unreplicate(state))
"""),
    "without helpers": _program(
        """
@functools.partial(jax.pmap, axis_name="batch")
def step(state, batch, key):
    noise = jax.random.normal(key, batch["x"].shape) * 0.1
    return update(state, {**batch, "x": batch["x"] + noise})


def main():
    n = jax.local_device_count()
    key = jax.random.PRNGKey(0)
    state = jax.device_put_replicated(init(), jax.local_devices())
    for _ in range(3):
        key, use = jax.random.split(key)
        batch = jax.tree_util.tree_map(lambda x: x.reshape((n, -1) + x.shape[1:]), data(16))
        state, metrics = step(state, batch, jax.random.split(use, n))
    loss = metrics["loss"][0]
    final = jax.tree_util.tree_map(lambda x: x[0], state)
    return np.asarray(loss), jax.device_get(final)
""",
        helpers=False,
    ),
    "a trainer that keeps its state": _program("""
class Trainer:
    def __init__(self, params):
        self.state = replicate(params)
        self.step = jax.pmap(update, axis_name="batch", donate_argnums=(0,))
        self.losses = []

    def train(self, steps):
        for _ in range(steps):
            self.state, metrics = self.step(self.state, shard(data(16)))
            self.losses.append(float(metrics["loss"][0]))

    def params(self):
        return unreplicate(self.state)


def main():
    trainer = Trainer(init())
    trainer.train(2)
    early = trainer.params()
    trainer.train(2)
    return trainer.losses, jax.device_get(early), jax.device_get(trainer.params())
"""),
    "the same array twice, donated": _program("""
def step(state, batch):
    new, metrics = update(state["now"], batch)
    ema = jax.tree_util.tree_map(lambda a, b: a * 0.5 + b * 0.5, state["ema"], new)
    return {"now": new, "ema": ema}, metrics


p_step = jax.pmap(step, axis_name="batch", donate_argnums=0)


def main():
    params = {**init(), "step": jnp.float32(0)}
    state = replicate({"now": params, "ema": params})
    best = None
    for k in range(4):
        state, metrics = p_step(state, shard(data(8)))
        if k == 1:
            best = unreplicate(state)
    return jax.device_get(best), jax.device_get(unreplicate(state)), jax.device_get(params)
"""),
    "steps that are handed around": _program("""
def make_step(rate):
    def scaled(state, batch):
        new, metrics = update(state, batch)
        return jax.tree_util.tree_map(lambda a, b: a + (b - a) * rate, state, new), metrics

    return jax.pmap(scaled, axis_name="batch")


def epoch(step, state, steps):
    for _ in range(steps):
        state, metrics = step(state, shard(data(16)))
    return state, metrics


def main():
    step = make_step(0.5)
    params = {k: v for k, v in init().items()}
    params["step"] = jnp.float32(0)
    state = replicate(params)
    for _ in range(2):
        state, metrics = epoch(step, state, 2)
    return jax.device_get(unreplicate((state, metrics)))
"""),
    "training and evaluation": _program("""
def evaluate_step(params, batch, scale):
    return jax.lax.psum(loss_fn(params, batch) * scale, "batch")


p_step = jax.pmap(update, axis_name="batch", donate_argnums=(0,))
p_eval = jax.pmap(evaluate_step, axis_name="batch", in_axes=(0, 0, None))


def evaluate(state):
    total = 0.0
    for _ in range(2):
        total += float(p_eval(state, shard(data(8)), 0.5)[0])
    return total


def main():
    state = replicate(init())
    totals = [evaluate(state)]
    for _ in range(3):
        state, _ = p_step(state, shard(data(16)))
        totals.append(evaluate(state))
    return totals, jax.device_get(unreplicate(state))
"""),
    "modules": {
        "main.py": "import jax\nfrom project import train\n\n\n"
        "def main():\n    state, losses = train.fit(3)\n    return losses, jax.device_get(state)\n",
        "project/__init__.py": "",
        "project/parallel.py": "import jax\n\nAXIS = 'batch'\n" + HELPERS,
        "project/model.py": _HEAD,
        "project/steps.py": "import jax\nfrom project import model\n"
        "from project.parallel import AXIS\n\n"
        "train_step = jax.pmap(model.update, axis_name=AXIS, donate_argnums=(0,))\n",
        "project/train.py": "from project import parallel\n"
        "from project.model import data, init\nfrom project.steps import train_step\n\n\n"
        "def one(state):\n"
        "    batch = parallel.shard(data(16))\n"
        "    return train_step(state, batch)\n\n\n"
        "def fit(steps):\n    state = parallel.replicate(init())\n    losses = []\n"
        "    for _ in range(steps):\n        state, metrics = one(state)\n"
        "        losses.append(float(metrics['loss'][0]))\n"
        "    return parallel.unreplicate(state), losses\n",
    },
    "Python numbers": _program("""
p_scaled = jax.pmap(
    lambda tree, x: {k: jax.lax.pmax(x * v, "batch") for k, v in tree.items()}, axis_name="batch"
)
N = jax.local_device_count()


def main():
    tree = {"int": 403, "float": 0.1, "weak": jnp.asarray(0.1), "flag": True, "own": np.int8(3)}
    narrow = shard(jnp.ones((N, 1), jnp.int8))
    stacked = [
        jax.device_put_replicated(tree, jax.local_devices()),
        jax.tree.map(lambda x: jnp.stack([x] * N), tree),
    ]
    out = [p_scaled(one, narrow) for one in stacked]
    out = jax.tree.map(lambda x: x[0], out)
    return [[(key, str(x.dtype), np.asarray(x)) for key, x in one.items()] for one in out]
"""),
}

PARTLY: dict[str, tuple[str, dict[str, str]]] = {
    "axes of None, and a function that is used elsewhere": (
        "its out_axes are not the same for all outputs",
        _program("""
def noisy(key, scale, rows):
    rows = rows + scale * jax.random.normal(key, rows.shape)
    return {"rows": rows}, rows.sum(), jax.lax.psum(rows, "batch")


def predict(params, x):
    return {"y": x @ params["w"]}, x.sum()


p_noisy = jax.pmap(noisy, "batch", in_axes=(0, None, 0), out_axes=(0, 0, None))
p_predict = jax.pmap(predict)


def main():
    n = jax.local_device_count()
    keys = jax.random.split(jax.random.PRNGKey(0), n)
    params = replicate(init())
    x = rng.randn(n, 2, 3).astype(np.float32)
    out = [p_noisy(keys, 0.5, x)]
    out.append(p_noisy(keys, 0.5, out[0][0]["rows"]))
    out.append(p_predict(params, x))
    alone = predict(init(), x[0])
    return jax.device_get((out, alone))
"""),
    ),
    "statistics of each device": (
        "is not proven to be the same on all devices: comes from argument batch['x']",
        _program("""
def step(state, batch):
    new, metrics = update(state["params"], batch)
    stats = 0.9 * state["stats"] + 0.1 * batch["x"].mean(0)
    return {"params": new, "stats": stats}, metrics


p_step = jax.pmap(step, axis_name="batch")
p_mean = jax.pmap(lambda x: jax.lax.pmean(x, "x"), "x")


def main():
    state = replicate({"params": init(), "stats": jnp.zeros(3)})
    for _ in range(3):
        state, metrics = p_step(state, shard(data(16)))
    state["stats"] = p_mean(state["stats"])
    return float(metrics["loss"][0]), jax.device_get(unreplicate(state))
"""),
    ),
}

STACKED: dict[str, tuple[str, dict[str, str]]] = {
    "fewer rows than devices": (
        "a recorded run gives it fewer rows than there are devices",
        _program("""
p_step = jax.pmap(update, axis_name="batch")


def main():
    state = jax.device_put_replicated(init(), jax.devices()[:4])
    batch = jax.tree_util.tree_map(lambda x: x.reshape((4, -1) + x.shape[1:]), data(16))
    state, metrics = p_step(state, batch)
    return float(metrics["loss"][0]), jax.device_get(unreplicate(state))
"""),
    )
}
