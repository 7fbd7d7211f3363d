# %% [markdown]
# # Distributed linear regression
# A notebook exported to a script: globals, cells, and no main function.

# %%
import jax
import jax.numpy as jnp
import numpy as np
from jax import pmap
from jax.lib import xla_bridge

print("backend:", xla_bridge.get_backend().platform)
n = jax.local_device_count()

# %%
rng = np.random.RandomState(7)
xs = rng.normal(size=(n * 4, 3)).astype(np.float32)
ys = xs @ np.array([1.0, -2.0, 0.5], np.float32) + 0.25

# %%
# The data sits on the first device, the weights on another one: pmap sorts that out.
X = jax.device_put(xs.reshape(n, 4, 3), jax.devices()[0])
Y = jax.device_put(ys.reshape(n, 4), jax.devices()[0])
W = jax.device_put(jnp.zeros((n, 4)), jax.devices()[-1])

# %%
predict = lambda w, x: x @ w[:3] + w[3]
loss = lambda w, x, y: jnp.mean((predict(w, x) - y) ** 2)
update = pmap(
    lambda w, x, y: w - 0.1 * jax.lax.pmean(jax.grad(loss)(w, x, y), axis_name="d"), axis_name="d"
)

# %%
curve = []
for epoch in range(12):
    W = update(W, X, Y)
    if epoch % 4 == 0:
        curve.append(float(loss(W[0], xs, ys)))
print(curve)

# %%
W[0]

# %%
pairwise = pmap(lambda a, b: a * b)(W, W + 1)
RESULTS = {"curve": np.float32(curve), "w": W, "first": W[0] + W[n - 1], "pairwise": pairwise}
