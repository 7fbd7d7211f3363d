"""shardlift: the way off ``jax.pmap``.

``import shardlift`` is cheap and does not import JAX: names are loaded when they are first used
(PEP 562), so that the linter works where JAX is not installed.
"""

import importlib

# Neither typing nor __future__ is imported: `python -m shardlift` starts with the current folder
# before the standard library on the path, and no file of that folder may be imported.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shardlift._legacy import legacy as legacy
    from shardlift._replication import replication as replication
    from shardlift.arrays import barrier as barrier
    from shardlift.arrays import device_put_replicated as device_put_replicated
    from shardlift.arrays import device_put_sharded as device_put_sharded
    from shardlift.arrays import local_view as local_view
    from shardlift.arrays import pad_shard_unpad as pad_shard_unpad
    from shardlift.arrays import prefetch_to_device as prefetch_to_device
    from shardlift.arrays import replicate as replicate
    from shardlift.arrays import shard as shard
    from shardlift.arrays import show as show
    from shardlift.arrays import stitch as stitch
    from shardlift.arrays import unreplicate as unreplicate
    from shardlift.mapping import Pmapped as Pmapped
    from shardlift.mapping import pmap as pmap

__version__ = "0.1.0.dev0"

# Public name -> the module that holds it.
_WHERE = {
    "legacy": "shardlift._legacy",
    "Pmapped": "shardlift.mapping",
    "pmap": "shardlift.mapping",
    "replication": "shardlift._replication",
    **dict.fromkeys((
        "barrier", "device_put_replicated", "device_put_sharded", "local_view", "pad_shard_unpad",
        "prefetch_to_device", "replicate", "shard", "show", "stitch", "unreplicate",
    ), "shardlift.arrays"),
}  # fmt: skip

__all__ = ["__version__", *_WHERE]


if not TYPE_CHECKING:  # or type checkers would accept any name

    def __getattr__(name: str) -> "Any":
        try:
            module = _WHERE[name]
        except KeyError:
            raise AttributeError(f"module 'shardlift' has no attribute {name!r}") from None
        try:
            value = getattr(importlib.import_module(module), name)
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] not in ("jax", "jaxlib", "numpy"):
                raise
            raise ImportError(
                f"shardlift.{name} needs JAX, which is not installed here: "
                'pip install "shardlift[jax]"'
            ) from error
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
