"""Stacked states that are saved: what is on disk, and how both forms are loaded."""

from __future__ import annotations

import ast

from shardlift.rewrite.device_axis.cells import Escape
from shardlift.rewrite.names import jax_name
from shardlift.source.file import File

_SAVE = frozenset(
    {
        "flax.serialization.msgpack_serialize", "flax.serialization.to_bytes",
        "flax.serialization.to_state_dict", "flax.training.checkpoints.save_checkpoint",
        "flax.training.checkpoints.save_checkpoint_multiprocess", "jax.numpy.save",
        "jax.numpy.savez", "joblib.dump", "numpy.save", "numpy.savez", "numpy.savez_compressed",
        "pickle.dump", "pickle.dumps",
    }
)  # fmt: skip


def how_to_save(escape: Escape) -> str:
    """What to change by hand where a state is saved with its device axis; "" elsewhere."""
    if escape.at is None or not _saves(escape.at.file, escape.at.node):
        return ""
    jax = jax_name(escape.at.file)[0]
    return (
        f". It is saved with one copy per device. To let the axis go, save "
        f"`{jax}.tree.map(lambda x: x[0], ...)` of it there and migrate again: files then have no "
        f"device axis, and `{jax}.tree.map(lambda x, like: x[0] if x.ndim > like.ndim else x, "
        "loaded, state)` loads both, `state` being one without the axis"
    )


def _saves(file: File, node: ast.AST) -> bool:
    """Whether a call saves what it is given: with a library, or as orbax does."""
    if not isinstance(node, ast.Call):
        return False
    is_save = isinstance(node.func, ast.Attribute) and node.func.attr == "save"
    return file.called(node) in _SAVE or (is_save and "orbax" in file.source.text)
