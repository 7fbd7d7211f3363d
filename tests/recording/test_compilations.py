"""Where arrays are, in words."""

from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

from shardlift.recording.compilations import placement_by

DEVICES = jax.devices()
MESH = Mesh(np.array(DEVICES).reshape(2, 4), ("i", "j"))


@pytest.mark.parametrize(
    ("sharding", "text"),
    [
        (SingleDeviceSharding(DEVICES[3]), "cpu:3"),
        (NamedSharding(MESH, PartitionSpec()), "whole on each of cpu:0-7"),
        (NamedSharding(MESH, PartitionSpec(None, "i")), "P(None, 'i') on cpu:0-7"),
        (
            NamedSharding(Mesh(np.array([DEVICES[k] for k in (0, 2, 3)]), "i"), PartitionSpec("i")),
            "P('i') on cpu:0,2,3",
        ),
    ],
)
def test_placements(sharding: Any, text: str) -> None:
    assert placement_by(sharding) == text
