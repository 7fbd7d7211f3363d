"""All replicas of a pmap output are copied to the host, but only one is used.

`jax.device_get(x)[0]` copies the data once per device. Select the local shard first:
`jax.device_get(x.addressable_shards[0].data)`. One number per device is no matter, nor is what is
printed: `float(jax.device_get(loss)[0])`, which `fix` writes, is as quick.
"""

import ast
from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.idioms import is_zero
from shardlift.source.model import GUIDE, Level, Match, Rule
from shardlift.source.outputs import fetched_argument, is_array, is_small, may_be_output, output_of


def visit(file: File) -> Iterator[Match]:
    """`[0]` or unreplicate, applied to `jax.device_get` or `np.asarray` of a pmap output."""
    for node in file.index.nodes(ast.Subscript):
        whole = fetched_argument(file, node.value) if is_zero(node.slice) else None
        output = output_of(file, whole) if whole is not None else None
        if output is not None and is_array(output) and not is_small(file, node):
            yield Match(node, "all replicas are copied to the host, and only the first is used")
    for call, tree in file.unreplications:
        whole = fetched_argument(file, tree)
        if whole is not None and may_be_output(file, whole):
            yield Match(call, "all replicas are copied to the host, and only the first is used")


RULE = Rule(
    code="SL404",
    level=Level.SLOW,
    summary="device_get of all replicas where one is used",
    advice="Fetch only x.addressable_shards[0].data, or return it with out_axes=None.",
    reference=f"{GUIDE}#option-2-access-local-data-directly",
    words=("pmap",),
    bad=(
        "import jax\nf = jax.pmap(lambda x: x / 2)\ny = f(x)\nz = jax.device_get(y)[0]  # SL404",
        "import jax\np = jax.pmap(step)\nm = jax.device_get(p(x))\n"
        "m = jax.tree.map(lambda v: v[0], m)  # SL404",
    ),
    good=(
        "import jax\nf = jax.pmap(step)\nz = jax.device_get(f(x))[0]",
        "import jax\nf = jax.pmap(lambda x: (x, x / 2))\nz = jax.device_get(f(x))[0]",
        "import jax\nf = jax.pmap(lambda x: x / 2)\ny = f(x)\nz = float(jax.device_get(y)[0])",
        "import jax\nf = jax.pmap(lambda x: x / 2)\ny = f(x)\nprint(jax.device_get(y)[0])",
        "import jax\nf = jax.pmap(lambda x: x * 2)\nz = jax.device_get(f(x))[1:]",
    ),
)
