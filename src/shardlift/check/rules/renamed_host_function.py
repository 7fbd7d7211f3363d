"""`jax.host_id`, `host_count` and `host_ids` are old names of `process_index` and its family.

They still work, warn at each call, and JAX says that they will go.
"""

import ast
from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.imports import is_new_name, uses_of
from shardlift.source.model import CHANGELOG, Edit, Kind, Level, Match, Rule

_NAMES = {
    "jax.host_id": "process_index",
    "jax.host_count": "process_count",
    "jax.host_ids": "process_indices",
}


def visit(file: File) -> Iterator[Match]:
    """Every use of one of the three, through the module or imported from it."""
    for node in file.index.nodes(ast.Attribute):
        name = file.name(node) if node.attr.startswith("host_") else None
        if name in _NAMES:
            edit = file.replace(node, f"{file.text(node.value)}.{_NAMES[name]}")
            yield Match(node, f"{name} is an old name of jax.{_NAMES[name]}", (edit,))
    for statement in file.index.nodes(ast.ImportFrom):
        for alias in statement.names:
            full = f"{statement.module}.{alias.name}"
            if (new := _NAMES.get(full)) and not statement.level:
                yield Match(
                    alias, f"{full} is an old name of jax.{new}", _renamed(file, alias, new)
                )


def _renamed(file: File, alias: ast.alias, new: str) -> tuple[Edit, ...]:
    """The import of the new name, with the uses of the old one if the new one is free."""
    uses = uses_of(file, alias)
    if alias.asname or not uses or not is_new_name(file, new):
        return (file.replace(alias, f"{new} as {alias.asname or alias.name}"),)
    return (file.replace(alias, new), *(file.replace(use, new) for use in uses))


RULE = Rule(
    code="SL106",
    level=Level.NOTE,
    summary="jax.host_id and its family, renamed to process_index",
    advice="Use jax.process_index, process_count, process_indices.",
    reference=CHANGELOG,
    names=tuple(_NAMES),
    bad=(
        "import jax\nif jax.host_id() == 0:  # SL106\n    pass",
        "from jax import host_count  # SL106",
    ),
    good=(
        "import jax\nx = jax.experimental.multihost_utils",
        "jax = object()\njax.host_id()",
        "from mylib import host_count\nhost_count()",
    ),
    rewritten_as=frozenset({Kind.NAME}),
)
