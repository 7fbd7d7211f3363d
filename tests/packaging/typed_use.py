"""The library as a user's strictly typed code meets it. Never run: mypy reads it.

It is read with the package (`mypy`), and from the outside, against an installed wheel
(`test_without_jax.py`). Where an error must be found it is marked so: a mark without one is an
error too.
"""

from collections.abc import Callable, Iterator
from typing import Any

import shardlift
from shardlift import arrays
from shardlift.arrays import stitch
from shardlift.facts import Capture, read


def step(x: float, y: float) -> float:
    """One row."""
    return x + y


def used_as_meant(batches: Iterator[dict[str, Any]]) -> list[str]:
    """Every name, with the types that the documentation gives."""
    mapped: shardlift.Pmapped = shardlift.pmap(
        step, axis_name="i", in_axes=(0, None), donate_argnums=0, reshard="warn", view="local"
    )
    plain: Callable[..., Any] = mapped.as_shard_map(1.0, 2.0)
    tree = shardlift.replicate({"w": plain(1.0, 2.0)})
    for batch in shardlift.prefetch_to_device(batches, 2):
        mapped(tree, shardlift.shard(batch))
    shardlift.barrier("end", timeout=60)
    with shardlift.legacy() as uses:
        print(uses)
    capture: Capture = read("run.json")
    version: str = shardlift.__version__
    return [version, str(mapped.explain(tree)), shardlift.show(tree), *capture.command]


def mistaken() -> None:
    """What a checker should catch before a program runs."""
    shardlift.pmap(step, axis_nam="i")  # type: ignore[call-arg]
    shardlift.pmap(step, reshard="sometimes")  # type: ignore[arg-type]
    print(shardlift.pmap(step, view="global").nothing)  # type: ignore[attr-defined]
    shardlift.barrier(3)  # type: ignore[arg-type]
    shardlift.unreplicate()  # type: ignore[call-arg]
    shardlift.prefetch_to_device(iter([]), "2")  # type: ignore[arg-type]
    print(shardlift.nothing)  # type: ignore[attr-defined]
    read("run.json").sites.append(1)  # type: ignore[attr-defined]
    print(arrays.nothing)  # type: ignore[attr-defined]
    stitch()  # type: ignore[call-arg]
