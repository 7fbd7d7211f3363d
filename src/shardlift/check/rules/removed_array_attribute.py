"""`.device_buffer` and `.device_buffers` of an array were removed in JAX 0.4.27.

pmap programs used them to read the shards of an output one by one.
"""

from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.guarded import is_guarded
from shardlift.source.model import CHANGELOG, Kind, Match, Rule
from shardlift.source.values import Instance, Known

_INSTEAD = {
    "device_buffer": ".addressable_data(0)",
    "device_buffers": "[s.data for s in x.addressable_shards]",
}


def visit(file: File) -> Iterator[Match]:
    """The attribute of any value that is not an object of the project."""
    for name in _INSTEAD:
        for node in file.index.attributes[name]:
            own = any(isinstance(value, (Instance, Known)) for value in file.values(node.value))
            if not own and not is_guarded(file, node, node.attr):
                text = f".{node.attr} was removed in JAX 0.4.27: use {_INSTEAD[node.attr]}"
                yield Match(node, text)


RULE = Rule(
    code="SL110",
    summary=".device_buffer and .device_buffers of an array",
    advice="Use .addressable_shards, or .addressable_data(0).",
    reference=CHANGELOG,
    words=("device_buffer",),
    bad=(
        "first = jax.tree.map(lambda x: x.device_buffers[0], state)  # SL110",
        "import jax\nbuffer = array.device_buffer  # SL110",
    ),
    good=(
        "import jax\nclass A:\n    def f(self):\n        return self.device_buffer",
        "import jax\narray.device_buffer = 1",
        "import jax\nif hasattr(x, 'device_buffer'):\n    y = x.device_buffer",
    ),
    since=(0, 4, 27),
    rewritten_as=frozenset({Kind.NAME}),
)
