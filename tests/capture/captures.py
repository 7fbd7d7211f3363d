"""Captures to test with."""

import dataclasses
from typing import Any

from shardlift.capture import schema
from shardlift.capture.counts import Histogram

FIRST = schema.CompileReason(schema.ReasonKind.FIRST_CALL)
SPLIT, DEVICE_3 = "P('i') on cpu:0-7", "cpu:3"
NASTY = "<script>alert(1)</script>&\"'`|\x00"


def distribution(*seconds: float) -> schema.Distribution:
    histogram = Histogram()
    for value in seconds:
        histogram.add(value)
    found = histogram.freeze()
    return dataclasses.replace(found, total=round(found.total, 9))  # as a file holds it


def process(index: int = 0, count: int = 1) -> schema.Process:
    devices = tuple(f"cpu:{8 * index + k}" for k in range(8))
    return schema.Process(index, count, "3.12.1", "0.12.0", "0.1", "cpu", "cpu", devices)


def leaf(path: str = "state['w']", **changes: Any) -> schema.LeafFacts:
    plain = schema.LeafFacts(path, 8 * 2**22, 0)
    return dataclasses.replace(plain, **changes)


def site(**changes: Any) -> schema.SiteFacts:
    """A training step: 10 calls of 4 ms, 1 ms of it moving by pmap; 2 ms until ready."""
    plain = schema.SiteFacts(
        "train.py",
        12,
        "train_step",
        axis_name="i",
        axis_size=8,
        calls=12,
        looked=4,
        times=schema.Times(
            call=distribution(*[0.004] * 10),
            moving=distribution(*[0.001] * 10),
            compiling=distribution(0.5, 0.3),
            waiting=distribution(0.002, 0.002),
        ),
        compiles=((FIRST,),),
        compile_count=1,
    )
    return dataclasses.replace(plain, **changes)


def everything(name: str = "train_step") -> schema.Capture:
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
            (schema.CompileReason(schema.ReasonKind.TYPE, name, "float32[8,4]", "float32[8,5]"),),
            (schema.CompileReason(schema.ReasonKind.STATIC_ARGUMENT, "0", "1", "2"),),
        ),
        compile_count=3,
        moves=(
            schema.Move(f"batch[{name!r}]", schema.HOST, SPLIT, 2**23, 4, schema.MovedBy.PROGRAM),
            schema.Move("state", DEVICE_3, SPLIT, 12 * 2**21, 12, schema.MovedBy.PMAP),
        ),
        reads=(
            schema.Read(schema.ReadBy.INDEX, f"{name}.py", 30, 5, 2**20),
            schema.Read(schema.ReadBy.UNREPLICATE, "train.py", 31, 5, 2**20, 0.1),
            schema.Read(schema.ReadBy.DEVICE_GET, "train.py", 32, 5, 2**23, 0.2),
        ),
        unseen=(f"something about {name}",),
    )
    return schema.Capture(
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
