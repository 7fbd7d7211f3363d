"""A pmapped body differentiates a loss that contains `psum` or `pmean`.

Under pmap the transpose of `psum` is `psum`, so the result is the gradient of the sum over all
devices. `jax.shard_map` does the same only with `check_vma=False`; with its default, the numbers
change.
"""

from collections.abc import Iterator

from shardlift.check.gradients import gradients, loss_is_reduced
from shardlift.source.file import File
from shardlift.source.model import SHARD_MAP, Level, Match, Rule
from shardlift.source.scopes import FUNCTIONS
from shardlift.source.sites import Role


def visit(file: File) -> Iterator[Match]:
    """Gradients through a reduction in the body of a pmapped function."""
    for site in file.sites:
        function = site.function if site.role is Role.MAP else None
        if function is None or function.file is not file:
            continue
        if isinstance(function.node, FUNCTIONS):
            for gradient in gradients(file, function.node):
                if loss_is_reduced(gradient):
                    text = "a gradient through a collective: use check_vma=False in the shard_map"
                    yield Match(gradient.call, text)


_HEAD = (
    "import jax\nfrom jax import lax\ndef loss(w, x):\n    return lax.psum((w * x).sum(), 'i')\n"
)

RULE = Rule(
    code="SL503",
    level=Level.NOTE,
    summary="a gradient through a collective depends on check_vma",
    advice="Migrate it with check_vma=False, or move the collective out of the loss.",
    reference=SHARD_MAP,
    words=("pmap",),
    bad=(
        _HEAD + "def step(w, x):\n    return jax.grad(loss)(w, x)  # SL503\n"
        "f = jax.pmap(step, axis_name='i')\n",
        _HEAD
        + "def step(w, x):\n    l, g = jax.value_and_grad(loss)(w, x)  # SL503\n    return g\n"
        "f = jax.pmap(step, 'i')\n",
    ),
    good=(
        _HEAD + "def plain(w, x):\n    return (w * x).sum()\n"
        "def step(w, x):\n    return lax.pmean(jax.grad(plain)(w, x), 'i')\n"
        "f = jax.pmap(step, axis_name='i')\n",
        _HEAD + "def step(w, x):\n    return loss(w, x)\nf = jax.pmap(step, axis_name='i')\n",
        "import jax\ndef step(w, x):\n    return jax.grad(unknown)(w, x)\nf = jax.pmap(step)\n",
    ),
)
