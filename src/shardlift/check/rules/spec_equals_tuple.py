"""A PartitionSpec is compared with a tuple, which is never true since JAX 0.10.

Nothing is raised: the branch is just not taken any more. Compare with another PartitionSpec.
"""

import ast
import re
from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.libraries import SPECS
from shardlift.source.model import CHANGELOG, Match, Rule
from shardlift.source.values import Result


def visit(file: File) -> Iterator[Match]:
    """`==` and `!=` between a spec and a tuple that is written there."""
    for compare in file.index.nodes(ast.Compare):
        sides = [compare.left, *compare.comparators]
        for operator, left, right in zip(compare.ops, sides, sides[1:], strict=False):
            if not isinstance(operator, (ast.Eq, ast.NotEq)):
                continue
            one, other = (right, left) if isinstance(left, ast.Tuple) else (left, right)
            if isinstance(other, ast.Tuple) and _is_spec(file, one):
                text = f"{file.brief(one)} is a PartitionSpec, which equals no tuple since JAX 0.10"
                yield Match(compare, text)


def _is_spec(file: File, node: ast.expr) -> bool:
    value = file.only(node)
    if isinstance(value, Result):
        return value.path in SPECS
    # `x.sharding.spec`, whatever x is: no other library has these two.
    owner = node.value if isinstance(node, ast.Attribute) and node.attr == "spec" else None
    return isinstance(owner, ast.Attribute) and owner.attr == "sharding"


RULE = Rule(
    code="SL714",
    summary="a PartitionSpec is compared with a tuple",
    advice='Compare with jax.sharding.PartitionSpec("i"), or compare tuple(spec).',
    reference=CHANGELOG,
    words=(".sharding.spec",),
    pattern=re.compile(rb"[=!]=[\s\\]*\(|\)[\s\\]*[=!]="),
    names=tuple(sorted(SPECS)),
    bad=(
        "import jax\nif x.sharding.spec == ('i',):  # SL714\n    pass\n",
        "from jax.sharding import PartitionSpec as P\nspec = P('i')\n"
        "wrong = ('i', None) != spec  # SL714\n",
    ),
    good=(
        "import jax\nif tuple(x.sharding.spec) == ('i',):\n    pass\n",
        "import jax\nif x.sharding.spec == jax.P('i'):\n    pass\n",
        "def same(spec):\n    return spec == ('i',)\n",
        "import jax\nif x.sharding.mesh.shape == (8,):\n    pass\n",
    ),
    since=(0, 10),
)
