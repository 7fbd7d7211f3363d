"""In a default shard_map, a gradient for sharded parameters goes through a collective.

With `check_vma=True`, the transpose of `psum` is not `psum`, as it is under pmap. For parameters
that are stacked, with one copy per device, the gradient of a loss with a `pmean` is too small by
the number of devices.
"""

from collections.abc import Iterator

from shardlift.check.gradients import checked_gradients, loss_is_reduced
from shardlift.check.rules._examples import LAX
from shardlift.source.file import File
from shardlift.source.model import SHARD_MAP, Match, Rule


def visit(file: File) -> Iterator[Match]:
    """Gradients through psum or pmean with respect to a sharded parameter."""
    for shard_map, gradient in checked_gradients(file):
        if shard_map.spec_of(gradient.parameter) and loss_is_reduced(gradient):
            text = f"the gradient for `{gradient.parameter}` is n times smaller than under pmap"
            yield Match(gradient.call, text)


_HEAD = f"{LAX}def loss(w, x):\n    return lax.pmean((w * x).sum(), 'i')\n"
_STEP = "def step(w, x):\n    return jax.grad(loss)(w, x)\n"
_MAPPED = "f = jax.shard_map(step, mesh=m, in_specs=P('i'), out_specs=P()"

RULE = Rule(
    code="SL502",
    summary="a gradient through pmean for stacked parameters",
    advice="Pass check_vma=False to get what pmap did, or pass the parameters with P().",
    reference=SHARD_MAP,
    names=("jax.shard_map", "jax.experimental.shard_map"),
    bad=(
        f"{_HEAD}def step(w, x):\n    return lax.pmean(jax.grad(loss)(w, x), 'i')  # SL502\n"
        f"{_MAPPED})",
        f"{_HEAD}def step(w, x):\n    l, g = jax.value_and_grad(loss)(w, x)  # SL502\n"
        "    return g\n"
        "f = jax.shard_map(step, mesh=m, in_specs=(P('i'), P('i')), out_specs=P('i'))",
    ),
    good=(
        f"{_HEAD}{_STEP}{_MAPPED}, check_vma=False)",
        f"{_HEAD}{_STEP}f = jax.shard_map(step, mesh=m, in_specs=(P(), P('i')), out_specs=P())",
        f"{_HEAD}def plain(w, x):\n    return (w * x).sum()\n"
        f"def step(w, x):\n    return lax.pmean(jax.grad(plain)(w, x), 'i')\n{_MAPPED})",
    ),
    since=(0, 7),
)
