"""The Adam of flax.optim: the same numbers in every bit, and the same checkpoints."""

import dataclasses
from typing import Any

import flax
import jax
import jax.numpy as jnp


@flax.struct.dataclass
class OptimizerState:
    """The steps that were taken, and the moments of each parameter."""

    step: Any
    param_states: Any


@flax.struct.dataclass
class Optimizer:
    """Parameters with the state of Adam, as in flax.optim."""

    optimizer_def: Any = flax.struct.field(pytree_node=False)
    state: Any
    target: Any

    def apply_gradient(self, grads: Any, **hyper_params: Any) -> Any:
        """The optimizer after one step."""
        adam = dataclasses.replace(self.optimizer_def, **hyper_params)
        lr, step = adam.learning_rate, self.state.step + 1

        def moments(g: Any, old: Any) -> Any:
            ema = adam.beta1 * old["grad_ema"] + (1 - adam.beta1) * g
            sq_ema = adam.beta2 * old["grad_sq_ema"]
            sq_ema += (1 - adam.beta2) * jnp.square(g)
            return {"grad_ema": ema, "grad_sq_ema": sq_ema}

        def moved(param: Any, new: Any) -> Any:
            t = jnp.array(step, param.dtype)
            ema = new["grad_ema"] / (1 - adam.beta1**t)
            rms = jnp.sqrt(new["grad_sq_ema"] / (1 - adam.beta2**t))
            after = param - lr * ema / (rms + adam.eps)
            return after - lr * adam.weight_decay * param

        states = self.state.param_states
        states = jax.tree_util.tree_map(moments, grads, states)
        target = jax.tree_util.tree_map(moved, self.target, states)
        return self.replace(state=OptimizerState(step, states), target=target)


@dataclasses.dataclass(eq=False)
class Adam:
    """The Adam of flax.optim, with the same numbers and checkpoints."""

    learning_rate: Any = None
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.0

    def create(self, target: Any) -> Any:
        """An optimizer of these parameters."""
        zeros, step = jnp.zeros_like, jnp.asarray(0, jnp.int32)
        states = jax.tree_util.tree_map(
            lambda p: {"grad_ema": zeros(p), "grad_sq_ema": zeros(p)}, target
        )
        return Optimizer(self, OptimizerState(step, states), target)
