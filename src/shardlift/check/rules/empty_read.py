"""An array of `jnp.empty` is read before it is written: it is not initialised since JAX 0.11.

Before, it was zeros. Sums into it, and arithmetic with it, now start from whatever the memory
holds, and give other numbers in each run. Only reads that are certain are reported: arithmetic,
comparisons, reductions, and `.at[...].add` and the like.
"""

import ast
from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.idioms import literals
from shardlift.source.model import CHANGELOG, Match, Rule
from shardlift.source.values import Result

_EMPTY = frozenset({"jax.numpy.empty", "jax.numpy.empty_like"})
_REDUCTIONS = frozenset(
    f"jax.numpy.{name}" for name in ("sum", "mean", "prod", "max", "min", "cumsum", "dot", "abs")
)
_ACCUMULATIONS = frozenset({"add", "multiply", "mul", "divide", "power", "min", "max", "apply"})


def visit(file: File) -> Iterator[Match]:
    """Empty arrays that are read as if they had elements."""
    for node in (*file.index.nodes(ast.Call), *file.index.nodes(ast.Name)):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            continue
        value = file.only(node)
        is_empty = isinstance(value, Result) and value.path in _EMPTY and _has_elements(value)
        if is_empty and _is_read(file, node):
            text = f"{file.brief(node)} is not initialised since JAX 0.11, and is read here"
            yield Match(node, text)


def _has_elements(empty: Result) -> bool:
    """Whether it is not known to have none, as `jnp.empty((0, 3))` has."""
    shape = empty.call.args[0] if empty.call.args else None
    if empty.path.endswith("_like") or shape is None:
        return empty.path.endswith("_like")
    sizes = literals(empty.file, shape)
    return bool(sizes) and 0 not in sizes


def _is_read(file: File, node: ast.expr) -> bool:
    parent = next(file.index.ancestors(node), None)
    if isinstance(parent, (ast.BinOp, ast.UnaryOp)):
        return True
    if isinstance(parent, ast.Compare):
        return not any(isinstance(operator, (ast.Is, ast.IsNot)) for operator in parent.ops)
    if isinstance(parent, ast.AugAssign):
        return parent.value is node
    if isinstance(parent, ast.Call):
        return node in parent.args[:1] and file.called(parent) in _REDUCTIONS
    if not isinstance(parent, ast.Attribute) or parent.attr != "at":
        return False
    _, method, *_ = file.index.ancestors(parent)  # `x.at[i].add`; at least the module is there
    return isinstance(method, ast.Attribute) and method.attr in _ACCUMULATIONS


RULE = Rule(
    code="SL114",
    summary="an array of jnp.empty is read before it is written",
    advice="Use jnp.zeros or jnp.zeros_like.",
    reference=CHANGELOG,
    names=tuple(sorted(_EMPTY)),
    bad=(
        "import jax.numpy as jnp\ntotal = jnp.empty(3) + 1  # SL114\n",
        "import jax.numpy as jnp\nbuffer = jnp.empty((8, 3))\n"
        "buffer = jnp.empty_like(y).at[0].add(y[0])  # SL114\n",
    ),
    good=(
        "import jax.numpy as jnp\nx = jnp.empty(8)\nfor i in range(8):\n    x = x.at[i].set(i)\n"
        "y = x + 1\n",
        "import jax.numpy as jnp\nx = jnp.concatenate([jnp.empty((0, 3)), y]) + jnp.empty(0)\n",
        "import jax.numpy as jnp\nparams = model.init(key, jnp.empty((1, 28, 28)))\n",
        "import jax.numpy as jnp\nshape = jnp.empty((8, 3)).shape\n",
    ),
    since=(0, 11),
)
