"""The choice of devices."""

import jax
import pytest

from shardlift.mapping import meshes
from shardlift.mapping.pmap_options import check_options

DEVICES = tuple(jax.devices())


def options(**given):
    return check_options(lambda x: x, **given)


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
