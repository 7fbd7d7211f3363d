"""The output of a pmapped function is indexed to read the row of one device, by `x[0]` or `x[0:1]`.

Outputs have a NamedSharding now: JAX must assume that every device needs row 0, and sends it to all
of them. On 8 CPU devices this takes 680 µs, where the old pmap took 25. In a program of many
processes it can raise an error, because no process has all devices.

Reported where the source shows that an array is indexed, and not a tuple. `shardlift migrate` needs
no such evidence: it writes a function that decides when it runs.
"""

import ast
from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.model import GUIDE, Kind, Level, Match, Rule
from shardlift.source.outputs import device_index


def visit(file: File) -> Iterator[Match]:
    """`out[0]` and `out[0:1]`, where `out` is an array that a pmapped function returned."""
    for node in file.index.nodes(ast.Subscript):
        if device_index(file, node) is not None:
            what = file.brief(node)
            if not file.many_processes:
                yield Match(node, f"`{what}` gathers a pmap output from all devices")
            else:
                yield Match(node, f"`{what}` gathers across processes and may raise CopyArrays")


RULE = Rule(
    code="SL401",
    level=Level.SLOW,
    summary="x[0] on an output of a pmapped function",
    advice="Return it with out_axes=None, or read x.addressable_shards[0].data.squeeze(0).",
    reference=f"{GUIDE}#int-indexing-into-sharded-arrays",
    words=("pmap",),
    bad=(
        "import jax\nf = jax.pmap(lambda x: x / 2)\ny = f(x)\nprint(y[0])  # SL401",
        "import jax\ndef step(s, b):\n    return s, jax.lax.pmean(b.sum() / 2, 'i')\n"
        "p = jax.pmap(step, axis_name='i')\ns, loss = p(s, b)\nprint(loss[0])  # SL401",
        "import jax\np = jax.pmap(step)\ns, loss = p(s, b)\nprint(float(loss[0]))  # SL401",
        "import jax\nf = jax.pmap(lambda x: x / 2)\ny = f(x)\nprint(y[0:1])  # SL401",
    ),
    good=(
        "import jax\nf = jax.pmap(lambda x: x / 2)\ny = f(x)\nprint(y[:], y[:n])",
        "import jax\nf = jax.pmap(lambda x: x / 2)\ny = f(x)\nprint(y.addressable_shards[0])",
        "import jax\nf = jax.pmap(lambda x: jax.lax.pmean(x, 'i'), 'i', out_axes=None)\n"
        "y = f(x)\nprint(y[0])",
        "import jax\nf = jax.pmap(lambda x: x / 2)\ny = f(x)\ny = 3 * [y]\nprint(y[0])",
        "import jax\nf = jax.pmap(lambda x: (x, x / 2))\nout = f(x)\nprint(out[0].shape)",
        "import jax\nf = jax.pmap(lambda x: x * 2)\nout = f(pair)\nprint(out[0])",
    ),
    since=(0, 8),
    rewritten_as=frozenset({Kind.READ}),
)
