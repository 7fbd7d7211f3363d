"""The choice of devices, meshes, and the checks on a mesh that the user has set."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh

from shardlift.mapping import meshes
from shardlift.mapping.pmap_options import check_options

DEVICES = tuple(jax.devices())


def options(**given):
    return check_options(lambda x: x, **given)


def test_nested_axes_need_a_device_for_each_row_of_each():
    layout = meshes.choose_layout(options(), 2, (("j", 4),))
    assert layout == meshes.DeviceRows(DEVICES, 2)
    mesh = meshes.make_mesh(layout, "i", (("j", 4),))
    assert dict(mesh.shape) == {"i": 2, "j": 4}
    assert list(mesh.devices.flat) == list(DEVICES)
    assert set(mesh.axis_types) == {AxisType.Auto}


class Device:
    def __init__(self, process_index):
        self.process_index = process_index


def test_devices_of_one_process_or_of_several(monkeypatch):
    mine, theirs = Device(0), Device(1)
    assert not meshes.spans_processes([mine, mine])
    assert meshes.spans_processes([mine, theirs])
    given = options(devices=[mine, theirs])
    assert meshes.given_local_devices(given) == (mine,)
    assert meshes.given_local_devices(options(devices=[mine])) == (mine,)
    everywhere = options(devices=[mine, theirs], view="global")
    assert meshes.given_local_devices(everywhere) == (mine, theirs)
    assert meshes.given_local_devices(options()) == ()


def two_processes(monkeypatch, *counts):
    """As in a job of several processes with so many devices each."""
    here = [[Device(n) for _ in range(count)] for n, count in enumerate(counts)]
    monkeypatch.setattr(jax, "process_count", lambda backend=None: len(counts))
    monkeypatch.setattr(jax, "local_devices", lambda process, backend=None: here[process])
    return here


def test_the_devices_of_each_process(monkeypatch):
    first, second = two_processes(monkeypatch, 4, 2)
    assert meshes.choose_layout(options(), 2, ()) == ((*first[:2], *second), 4)
    with pytest.raises(ValueError, match="requires 3 logical devices in process 0, but only 2"):
        meshes.choose_layout(options(), 3, ())
    everywhere = options(view="global")
    assert meshes.choose_layout(everywhere, 6, ()) == ((*first, *second), 6)
    with pytest.raises(ValueError, match="over 3 rows needs devices= in a job of 2 processes"):
        meshes.choose_layout(everywhere, 3, ())


def test_contexts():
    mesh = Mesh(np.array(DEVICES), ("i",))
    assert not meshes.in_context_mesh()
    assert not meshes.in_manual_context()
    with meshes.own_context(mesh):
        assert not meshes.in_context_mesh()  # none was set: none is needed
    with jax.set_mesh(Mesh(np.array(DEVICES[:4]), ("k",))):
        assert meshes.in_context_mesh()
        with meshes.own_context(mesh):
            assert jax.sharding.get_abstract_mesh() == mesh.abstract_mesh
