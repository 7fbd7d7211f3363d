"""A collective reduces a gradient that shard_map has already reduced.

With `check_vma=True`, the default, shard_map sums the gradient with respect to a value that is
equal on all devices (`P()`). The `pmean` that pmap needed then gives a result that is too large by
the number of devices. With Adam, the parameters barely show it; the moments do.
"""

from collections.abc import Iterator

from shardlift.check.gradients import checked_gradients, loss_is_reduced, reductions_of
from shardlift.check.rules._examples import LAX
from shardlift.source.file import File
from shardlift.source.model import SHARD_MAP, Match, Rule


def visit(file: File) -> Iterator[Match]:
    """pmean or psum of the gradient for a `P()` parameter, where the loss has no collective."""
    for shard_map, gradient in checked_gradients(file):
        name = gradient.parameter
        if shard_map.spec_of(name) == () and not loss_is_reduced(gradient):
            for call in reductions_of(file, gradient):
                text = f"shard_map has already summed the gradient for `{name}`: n times too large"
                yield Match(call, text)


_HEAD = f"{LAX}from functools import partial\ndef loss(w, x):\n    return (w * x).sum()\n"
_STEP = "def step(w, x):\n    return lax.pmean(jax.grad(loss)(w, x), 'i')\n"
_MAPPED = "f = jax.shard_map(step, mesh=m, in_specs=(P(), P('i')), out_specs=P()"

RULE = Rule(
    code="SL501",
    summary="a gradient is reduced again after shard_map has summed it",
    advice="Pass check_vma=False to get what pmap did, or remove the collective (and divide).",
    reference=SHARD_MAP,
    names=("jax.shard_map", "jax.experimental.shard_map"),
    bad=(
        f"{_HEAD}@partial(jax.shard_map, mesh=m, in_specs=(P(), P('i')), out_specs=P())\n"
        "def step(w, x):\n    g = jax.grad(loss)(w, x)\n    return lax.pmean(g, 'i')  # SL501",
        f"{_HEAD}def step(w, x):\n    l, g = jax.value_and_grad(loss)(w, x)\n"
        f"    return jax.tree.map(lambda v: lax.psum(v, 'i'), g)  # SL501\n{_MAPPED})",
    ),
    good=(
        f"{_HEAD}{_STEP}{_MAPPED}, check_vma=False)",
        f"{_HEAD}{_STEP}f = jax.shard_map(step, mesh=m, in_specs=P('i'), out_specs=P())",
        f"{_HEAD}def total(w, x):\n    return lax.pmean(loss(w, x), 'i')\n"
        f"def step(w, x):\n    return lax.pmean(jax.grad(total)(w, x), 'i')\n{_MAPPED})",
        f"{_HEAD}{_STEP}f = jax.shard_map(step, mesh=m, in_specs=specs, out_specs=P())",
    ),
    since=(0, 7),
)
