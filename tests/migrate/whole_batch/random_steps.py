"""Random steps, right and wrong ones: those that are rewritten have to compute the same.

Rows have two axes, and every reduction along the last axis keeps it, so that all programs have the
ranks that `--to jit` takes for granted.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from shardlift.migrate.goal import Goal
from tests.migrate.test_programs import migrated
from tests.migrate.whole_batch.steps import program

_TEMPLATES = (
    "{a} + {b}", "{a} - {b}", "{a} * {b}", "{a} / (2 + {b} * {b})", "0.5 * {a}", "{a} / 3", "-{a}",
    "jnp.tanh({a})", "jnp.where({a} > 0, {a}, {b})", "jnp.maximum({a}, {b})", "{a} ** 2",
    "jnp.mean({a})", "jnp.sum({a}) / 8", "jnp.mean({a}, axis=0)", "{a}.sum(axis=0)",
    'jnp.sum({a}) / batch["x"].shape[0]', "jnp.max({a}, axis=-1, keepdims=True)",
    "jax.nn.softmax({a})", "{a}.mean(axis=-1, keepdims=True)", "jax.lax.stop_gradient({a})",
    'lax.pmean({a}, "batch")', 'lax.psum({a}, "batch")', 'lax.pmean({a}, "batch")',
    'lax.psum({a}, "batch")', "jnp.multiply({a}, 0.3)", '{a} @ params["w"]',
    'jax.grad(lambda p: jnp.mean(jnp.tanh({a} * p)))(jnp.sum(params["w"]))',
    'jax.grad(lambda p: jnp.sum({a} * p ** 2) / 4)(jnp.sum(params["b"]) + 0.5)',
)  # fmt: skip


def step(seed: int) -> str:
    """The body of a random step."""
    draw = random.Random(seed)
    names = ['batch["x"]', 'batch["x"]', "jnp.sum(params['w'], axis=1)", "jnp.float32(0.7)"]
    lines = []
    for number in range(draw.randint(2, 7)):
        chosen = [draw.choice((*names, *names[4:])) for _ in range(2)]
        lines.append(f"    v{number} = {draw.choice(_TEMPLATES).format(a=chosen[0], b=chosen[1])}")
        names.append(f"v{number}")
    last = draw.choice(
        (names[-1], f'lax.pmean({names[-1]}, "batch")', f'lax.psum({names[-1]}, "batch")')
    )
    return "\n".join([*lines, f"    return params, {last}"])


def random_steps() -> Iterator[tuple[int, str]]:
    """Random steps that are rewritten, with a collective and rows, and their seeds."""
    for seed in range(1, 10_000):
        body = step(seed)
        after, _ = migrated({"main.py": program(body)}, goal=Goal.JIT)
        is_jit = "p_step = jit_over_devices(" in after["main.py"]
        if is_jit and "lax.p" in body and "batch[" in body:
            yield seed, body
