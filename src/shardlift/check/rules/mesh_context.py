"""A mesh is entered with `with mesh:`, which is deprecated since JAX 0.10.1.

`with jax.set_mesh(mesh):` takes its place. It also sets the mesh for `jax.shard_map` without
`mesh=` and for arrays that are created inside, so the lines inside deserve a look. A function of
`jax.experimental.pjit` finds its mesh by `with mesh:` only: make it a `jax.jit` first.
"""

import ast
import re
from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.libraries import MESHES
from shardlift.source.model import CHANGELOG, Level, Match, Rule
from shardlift.source.values import Result


def visit(file: File) -> Iterator[Match]:
    """Items of with statements that can only be a mesh."""
    for statement in file.index.nodes(ast.With):
        for mesh in (entered.context_expr for entered in statement.items):
            value = file.only(mesh)
            if isinstance(value, Result) and value.path in MESHES:
                text = f"`with {file.brief(mesh)}:` is deprecated since JAX 0.10.1"
                yield Match(mesh, text)


RULE = Rule(
    code="SL712",
    level=Level.NOTE,
    summary="a mesh is entered without jax.set_mesh",
    advice="Write `with jax.set_mesh(mesh):`. Functions of `jax.experimental.pjit` need "
    "`with mesh:`: make them `jax.jit` with NamedShardings first.",
    reference=CHANGELOG,
    names=tuple(sorted(MESHES)),
    pattern=re.compile(rb"^\s*with\b", re.MULTILINE),
    bad=(
        "import jax\nmesh = jax.make_mesh((8,), ('i',))\nwith mesh:  # SL712\n    f(x)\n",
        "from jax.sharding import Mesh\nwith Mesh(devices, ('i',)) as m:  # SL712\n    f(x)\n",
    ),
    good=(
        "import jax\nmesh = jax.make_mesh((8,), ('i',))\nwith jax.set_mesh(mesh):\n    f(x)\n",
        "import jax\nmesh = jax.make_mesh((8,), ('i',))\nwith open(mesh.name):\n    f(x)\n",
        "import jax\ndef f(mesh):\n    with mesh:\n        g()\n\nm = jax.make_mesh((8,), 'i')\n",
    ),
    since=(0, 10, 1),
)
