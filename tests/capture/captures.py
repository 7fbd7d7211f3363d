"""Captures to test with."""

import dataclasses
from typing import Any

from shardlift.capture.counts import Histogram
from shardlift.capture.schema import (
    HOST,
    Capture,
    CompileReason,
    Distribution,
    LeafFacts,
    Move,
    MovedBy,
    Process,
    Read,
    ReadBy,
    ReasonKind,
    SiteFacts,
    Times,
)

FIRST = CompileReason(ReasonKind.FIRST_CALL)
SPLIT, DEVICE_3 = "P('i') on cpu:0-7", "cpu:3"
NASTY = "<script>alert(1)</script>&\"'`|\x00"


def distribution(*seconds: float) -> Distribution:
    histogram = Histogram()
    for value in seconds:
        histogram.add(value)
    found = histogram.freeze()
    return dataclasses.replace(found, total=round(found.total, 9))  # as a file holds it


def process(index: int = 0, count: int = 1) -> Process:
    devices = tuple(f"cpu:{8 * index + k}" for k in range(8))
    return Process(index, count, "3.12.1", "0.12.0", "0.1", "cpu", "cpu", devices)


def leaf(path: str = "state['w']", **changes: Any) -> LeafFacts:
    plain = LeafFacts(path, 8 * 2**22, 0)
    return dataclasses.replace(plain, **changes)


def site(**changes: Any) -> SiteFacts:
    """A training step: 10 calls of 4 ms, 1 ms of it moving by pmap; 2 ms until ready."""
    plain = SiteFacts(
        "train.py",
        12,
        "train_step",
        axis_name="i",
        axis_size=8,
        calls=12,
        looked=4,
        times=Times(
            call=distribution(*[0.004] * 10),
            moving=distribution(*[0.001] * 10),
            compiling=distribution(0.5, 0.3),
            waiting=distribution(0.002, 0.002),
        ),
        compiles=((FIRST,),),
        compile_count=1,
    )
    return dataclasses.replace(plain, **changes)


def everything(name: str = "train_step") -> Capture:
    """A capture with every kind of finding; strings hold ``name``."""
    full = site(
        file=f"{name}.py",
        function=name,
        nested=2,
        transformed=1,
        arguments=(
            leaf(f"state[{name!r}]", equal=True, compared=3, donated=True, kept=2),
            leaf("batch", equal=False, compared=3),
            leaf("scale", axis=None),
        ),
        outputs=(
            leaf("output[0]", equal=True, compared=3),
            leaf("output[1]", axis=None, equal=False, compared=3),
        ),
        compiles=(
            (FIRST,),
            (CompileReason(ReasonKind.TYPE, name, "float32[8,4]", "float32[8,5]"),),
            (CompileReason(ReasonKind.STATIC_ARGUMENT, "0", "1", "2"),),
        ),
        compile_count=3,
        moves=(
            Move(f"batch[{name!r}]", HOST, SPLIT, 4 * 2**21, 4, MovedBy.PROGRAM),
            Move("state", DEVICE_3, SPLIT, 12 * 2**21, 12, MovedBy.PMAP),
        ),
        reads=(
            Read(ReadBy.INDEX, f"{name}.py", 30, 5, 2**20),
            Read(ReadBy.UNREPLICATE, "train.py", 31, 5, 2**20, 0.1),
            Read(ReadBy.DEVICE_GET, "train.py", 32, 5, 2**23, 0.2),
        ),
        unseen=(f"something about {name}",),
    )
    return Capture(
        command=("python", f"{name}.py"),
        seconds=2.0,
        processes=(process(),),
        sites=(full, site(line=40, function="eval_step")),
        used={"jax.device_put_replicated": 3},
        unseen=(f"{name} was not seen",),
    )


def places(tree: Any) -> list[tuple[Any, Any]]:
    """Every container in a tree, with each of its keys."""
    items = list(tree.items() if isinstance(tree, dict) else enumerate(tree))
    below = [
        place for _, value in items if isinstance(value, dict | list) for place in places(value)
    ]
    return [*((tree, key) for key, _ in items), *below]
