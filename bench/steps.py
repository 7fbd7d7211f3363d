"""Train steps as people write them for pmap, large enough to be traced for a while."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

AXIS = "batch"
Tree = Any


class Case(NamedTuple):
    """A function of one row, with a row of each argument; the first argument is replicated."""

    fun: Any
    args: tuple[Any, ...]


def struct(*shape: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def adam(params: Tree, moments: Tree, grads: Tree) -> tuple[Tree, Tree]:
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, moments[0], grads)
    second = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, moments[1], grads)
    params = jax.tree.map(lambda p, m, v: p - m / (jnp.sqrt(v) + 1e-8), params, first, second)
    return params, (first, second)


def trained(loss: Any) -> Any:
    """The usual step: gradients and loss are averaged, the rest happens on every device."""

    def step(state: Tree, batch: Tree) -> tuple[Tree, Tree]:
        params, moments, key = state
        key, mine = jax.random.split(key)
        mine = jax.random.fold_in(mine, lax.axis_index(AXIS))
        value, grads = jax.value_and_grad(loss)(params, batch, mine)
        grads = lax.pmean(grads, AXIS)
        params, moments = adam(params, moments, grads)
        norm = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(grads)))
        return (params, moments, key), {"loss": lax.pmean(value, AXIS), "norm": norm, "own": value}

    return step


def case(loss: Any, params: Tree, batch: Tree) -> Case:
    return Case(trained(loss), ((params, (params, params), struct(2, dtype=jnp.uint32)), batch))


def mlp(layers: int = 12) -> Case:
    def loss(params: Tree, batch: Tree, key: Any) -> Any:
        h = batch
        for k, layer in enumerate(params):
            h = jax.nn.gelu(h @ layer["w"] + layer["b"])
            keep = jax.random.bernoulli(jax.random.fold_in(key, k), 0.9, h.shape)
            h = jnp.where(keep, h, 0.0)
        return jnp.mean(h**2)

    return case(loss, [{"w": struct(32, 32), "b": struct(32)}] * layers, struct(16, 32))


def resnet(blocks: int = 8) -> Case:
    """Convolutions, and batch statistics that are averaged over the devices."""

    def norm(x: Any, scale: Any) -> Any:
        mean = lax.pmean(jnp.mean(x, (0, 1, 2)), AXIS)
        square = lax.pmean(jnp.mean(x * x, (0, 1, 2)), AXIS)
        return (x - mean) * lax.rsqrt(square - mean**2 + 1e-5) * scale

    def conv(x: Any, kernel: Any) -> Any:
        return lax.conv_general_dilated(
            x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    def loss(params: Tree, batch: Tree, _: Any) -> Any:
        x = batch
        for block in params:
            h = jax.nn.relu(norm(conv(x, block["a"]), block["s"]))
            x = jax.nn.relu(x + norm(conv(h, block["b"]), block["t"]))
        return jnp.mean(jax.nn.log_softmax(jnp.mean(x, (1, 2))))

    kernel, scale = struct(3, 3, 8, 8), struct(8)
    params = [{"a": kernel, "b": kernel, "s": scale, "t": scale}] * blocks
    return case(loss, params, struct(4, 8, 8, 8))


def transformer(layers: int = 6) -> Case:
    """One scan over the layers, each recomputed in the backward pass."""

    def attend(h: Any, layer: Tree) -> Any:
        q, k, v = (jnp.einsum("btd,dhe->bthe", h, layer[name]) for name in "qkv")
        weights = jax.nn.softmax(jnp.einsum("bthe,bshe->bhts", q, k) / 4.0)
        return jnp.einsum("bhts,bshe,hed->btd", weights, v, layer["o"])

    @jax.checkpoint
    def block(h: Any, layer: Tree) -> Any:
        h = h + attend(h / jnp.sqrt(jnp.mean(h * h, -1, keepdims=True) + 1e-6), layer)
        return h + jax.nn.gelu(h @ layer["up"]) @ layer["down"]

    def loss(params: Tree, batch: Tree, _: Any) -> Any:
        h = params["embed"][batch]
        h, _ = lax.scan(lambda h, layer: (block(h, layer), None), h, params["layers"])
        logits = h @ params["embed"].T
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), batch[..., None], -1))

    head = struct(layers, 32, 2, 16)
    stack = {"q": head, "k": head, "v": head, "o": struct(layers, 2, 16, 32)}
    stack |= {"up": struct(layers, 32, 64), "down": struct(layers, 64, 32)}
    params = {"embed": struct(100, 32), "layers": stack}
    return case(loss, params, struct(4, 12, dtype=jnp.int32))


def rollout(length: int = 20) -> Case:
    """A policy acts in an environment until all are done; then one step of its gradient."""

    def policy(params: Tree, state: Any) -> Any:
        return jnp.tanh(jnp.tanh(state @ params["a"]) @ params["b"])

    def act(params: Tree, carry: Any, key: Any) -> Any:
        state, alive = carry
        action = policy(params, state) + jax.random.normal(key, (8, 2))
        state = jnp.where(alive[:, None], state.at[:, :2].add(0.1 * action), state)
        alive = alive & (jnp.abs(state[:, 0]) < 2)
        return (state, alive), (state, jnp.sum(state * state, -1))

    def settle(state: Any) -> Any:
        def moves(s: Any) -> Any:
            return jnp.max(jnp.abs(s)) > 1

        return lax.while_loop(moves, lambda s: 0.9 * s, state)

    def loss(params: Tree, start: Any, key: Any) -> Any:
        keys = jax.random.split(key, length)
        begin = (lax.stop_gradient(settle(start)), jnp.ones(8, bool))
        _, (states, rewards) = lax.scan(lambda c, k: act(params, c, k), begin, keys)
        shift = lax.pmean(jnp.mean(rewards), AXIS)
        return jnp.mean((rewards - shift) * jnp.sum(policy(params, states), -1))

    return case(loss, {"a": struct(4, 16), "b": struct(16, 2)}, struct(8, 4))


CASES = {"MLP": mlp, "ResNet": resnet, "Transformer": transformer, "Rollout": rollout}
