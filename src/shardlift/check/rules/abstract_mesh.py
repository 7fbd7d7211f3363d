"""An `AbstractMesh` does not say of which type its axes are: Explicit since JAX 0.12, Auto before.

With Explicit axes, shard_map and sharding constraints raise an error for arrays that do not have
the sharding that they ask for, as those of pmap programs often do not.
"""

from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.model import CHANGELOG, Level, Match, Rule

_ABSTRACT_MESH = "jax.sharding.AbstractMesh"


def visit(file: File) -> Iterator[Match]:
    """Calls of AbstractMesh without `axis_types`."""
    for call in file.calls_of(_ABSTRACT_MESH):
        typed = any(keyword.arg in ("axis_types", None) for keyword in call.keywords)
        if len(call.args) <= 2 and not typed:
            yield Match(call, "this AbstractMesh has Explicit axes since JAX 0.12, and Auto before")


RULE = Rule(
    code="SL713",
    level=Level.NOTE,
    summary="an AbstractMesh whose axes became Explicit in JAX 0.12",
    advice="Pass axis_types=(AxisType.Auto,) for axes as they were, or Explicit to keep today's.",
    reference=CHANGELOG,
    names=(_ABSTRACT_MESH,),
    bad=("from jax.sharding import AbstractMesh\nmesh = AbstractMesh((8,), ('i',))  # SL713\n",),
    good=(
        "from jax.sharding import AbstractMesh, AxisType\n"
        "mesh = AbstractMesh((8,), ('i',), axis_types=(AxisType.Auto,))\n",
        "from jax.sharding import AbstractMesh, AxisType\n"
        "mesh = AbstractMesh((8,), ('i',), (AxisType.Explicit,))\n",
        "from jax.sharding import AbstractMesh\nmesh = AbstractMesh((8,), ('i',), **options)\n",
    ),
    since=(0, 12),
)
