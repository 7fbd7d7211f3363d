"""`jax.make_mesh` is called with a keyword for the sizes that it does not have.

The first parameter is `axis_shapes` up to JAX 0.10 and `axis_sizes` in 0.12. It was never `shape`,
which the migration guide shows. Passing it by position works in every version.
"""

from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.model import GUIDE, Kind, Match, Rule


def visit(file: File) -> Iterator[Match]:
    """Keywords that make_mesh does not have in the target version."""
    new, old = file.target >= (0, 12), file.target < (0, 11)
    unknown = ("shape", *["axis_shapes"] * new, *["axis_sizes"] * old)
    for call in file.calls_of("jax.make_mesh"):
        for keyword in call.keywords:
            if keyword.arg in unknown:
                is_first = not call.args and keyword is call.keywords[0]
                edits = (file.replace(keyword, file.text(keyword.value)),) if is_first else ()
                text = f"jax.make_mesh has no parameter {keyword.arg}: pass it by position"
                yield Match(keyword, text, edits)


RULE = Rule(
    code="SL702",
    summary="a keyword that jax.make_mesh does not have",
    advice="Pass the sizes by position.",
    reference=f"{GUIDE}#rewriting-pmap-to-jit-shard-map",
    names=("jax.make_mesh",),
    bad=(
        "import jax\nmesh = jax.make_mesh(shape=(8,), axis_names=('i',))  # SL702",
        "import jax\nmesh = jax.make_mesh(axis_shapes=(8,), axis_names=('i',))  # SL702",
    ),
    good=(
        "import jax\nmesh = jax.make_mesh((8,), axis_names=('i',))",
        "import jax\nmesh = jax.make_mesh(axis_sizes=(8,), axis_names=('i',))",
        "import jax\nmesh = jax.make_mesh(**options)",
    ),
    rewritten_as=frozenset({Kind.NAME}),
)
