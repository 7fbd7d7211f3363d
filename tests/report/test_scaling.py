"""What recorded sites would hold and move on more devices."""

from __future__ import annotations

import dataclasses
import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlift.capture.schema import Collective, LargerMesh, SiteKind
from shardlift.report import scaling
from shardlift.report.scaling import (
    Link,
    Network,
    ScalingError,
    Transfer,
    block_bytes,
    plan_site,
)
from shardlift.report.scaling_text import as_text, as_tree
from tests.capture.captures import leaf, site

PSUM = Collective("psum", ("i",), 2, 1000)
KIB = 2**10


def test_examples_run():
    outcome = doctest.testmod(scaling)
    assert outcome.attempted > 0
    assert outcome.failed == 0


@pytest.mark.parametrize(
    ("shape", "spec", "mesh", "nbytes"),
    [
        ((8, 4, 4), "P('i')", {"i": 8}, 64),
        ((2, 4, 4), "P('i')", {"i": 8}, 64),  # the rows of one process of four
        ((4, 8), "P(None, 'i')", {"i": 8}, 16),
        ((), "P()", {"i": 8}, 4),
        ((16, 4), "P('data')", {"data": 4, "model": 2}, 64),
        ((16, 4), "P('data', 'model')", {"data": 4, "model": 2}, 32),
        ((16, 4), "P(('data', 'model'))", {"data": 4, "model": 2}, 32),
        ((0, 4), "P('i')", {"i": 8}, 0),
        ((3, 4), "SingleDeviceSharding", {"i": 8}, 48),
    ],
)
def test_a_block(shape: tuple[int, ...], spec: str, mesh: dict[str, int], nbytes: int):
    assert block_bytes(leaf(shape=shape, spec=spec), mesh) == nbytes


@pytest.mark.parametrize(
    ("kind", "sent", "by_host", "linear"),
    [
        ("psum", 1500, 1500, False),
        ("pmax", 1500, 1500, False),
        ("reduce_scatter", 750, 750, False),
        ("all_gather", 3000, 3000, True),
        ("all_to_all", 750, 2 * 0.5 * 1000, False),
        ("ppermute", 1000, 1000, False),
    ],
)
def test_what_a_device_sends(kind: str, sent: float, by_host: float, linear: bool):
    transfer = Transfer(Collective(kind, ("i",), 1, 1000), 4)
    assert transfer.sent == sent
    assert transfer.sent_by_host(2) == by_host
    assert transfer.sent_by_host(4) == 0
    assert transfer.is_linear is linear
    assert Transfer(transfer.collective, 1).sent == 0


def test_rings_and_trees():
    link = Link(speed=1e9, latency=1e-6)
    ring, tree = Transfer(Collective("psum", ("i",), 1, 500_000), 1024).seconds(link)
    assert ring == pytest.approx(2 * 1023e-6 + 999e-6, rel=1e-3)
    assert tree == pytest.approx(2 * 10e-6 + 999e-6, rel=1e-3)
    assert Transfer(PSUM, 1).seconds(link) == (0, 0)
    once = Transfer(Collective("ppermute", ("i",), 1, 1000), 64).seconds(link)
    assert once == pytest.approx((2e-6, 2e-6))


def recorded(n: int, **changes):
    """A training step on so many devices."""
    state = leaf("state", shape=(n, 256, 4), equal=True, donated=True)
    batch = leaf("batch", shape=(n, 16), equal=False)
    output = leaf("output[0]", shape=(n, 256, 4), equal=True)
    plain = site(axis_size=n, mesh={"i": n}, arguments=(state, batch), outputs=(output,))
    return dataclasses.replace(plain, collectives=(PSUM,), **changes)


def test_a_site():
    plan = plan_site(recorded(8), 4096)
    assert dict(plan.mesh) == {"i": 4096}
    assert (plan.arguments, plan.outputs, plan.reused) == (4 * KIB + 64, 4 * KIB, 4 * KIB)
    assert [(r.path, r.nbytes, r.copies) for r in plan.replicas] == [("state", 4 * KIB, 4096)]
    assert plan.transfers[0].sent == 2 * 4095 / 4096 * 1000
    assert plan.before[0].sent == 2 * 7 / 8 * 1000
    assert plan.assumed == ()


def test_one_axis_of_two():
    both = recorded(8, kind=SiteKind.SHARD_MAP)
    weights = leaf("w", shape=(64, 64), axis=1, spec="P(None, 'model')", equal=None)
    over = (Collective("psum", ("model",), 1, 100), Collective("psum", ("data", "model"), 1, 100))
    both = dataclasses.replace(
        both, mesh={"data": 4, "model": 2}, arguments=(weights,), collectives=over
    )
    plan = plan_site(both, 64)
    assert dict(plan.mesh) == {"data": 32, "model": 2}
    assert [transfer.group for transfer in plan.transfers] == [2, 64]
    assert [(r.nbytes, r.copies) for r in plan.replicas] == [(8 * KIB, 32)]
    assert dict(plan_site(both, 64, "model").mesh) == {"data": 4, "model": 16}
    with pytest.raises(ScalingError, match="other axes take 2 devices, and 33 is no multiple"):
        plan_site(both, 33)
    with pytest.raises(ScalingError, match="there is no axis 'x'; there is data, model"):
        plan_site(both, 64, "x")


def growing(n: int):
    """One row per device, in each device; and outputs that are a part per device."""
    square = leaf("square", shape=(n, n, 16), equal=False)
    part = leaf("output", shape=(n, 512 // n), equal=False)
    exchange = Collective("all_to_all", ("i",), n, 64 * n)
    return recorded(n, arguments=(square,), outputs=(part,)), exchange


def test_two_captures_tell_what_grows():
    (first, few), (second, more) = growing(2), growing(8)
    first = dataclasses.replace(first, collectives=(few,))
    second = dataclasses.replace(second, collectives=(more,))
    alone = plan_site(first, 64)
    assert alone.arguments == 2 * 64
    assert alone.assumed == ("square", "the outputs")
    plan = plan_site(first, 64, also=second)
    assert (plan.arguments, plan.outputs) == (64 * 64, 512 // 64 * 4)
    planned = plan.transfers[0].collective
    assert (planned.count, planned.nbytes) == (64, 64 * 64)
    assert plan.assumed == ()
    assert plan.growing == ("square", "the operands of all_to_all", "the number of all_to_alls")


def test_two_captures_of_the_same_size_tell_nothing():
    assert plan_site(recorded(8), 64, also=recorded(8)) == plan_site(recorded(8), 64)


@given(st.integers(1, 16), st.integers(1, 10_000))
def test_the_recorded_number_of_devices_is_the_recorded_plan(n: int, nbytes: int):
    same = dataclasses.replace(recorded(n), collectives=(Collective("psum", ("i",), 1, nbytes),))
    plan = plan_site(same, n)
    assert plan.transfers == plan.before


def test_the_text():
    gather = Collective("all_gather", ("i",), 1, 512, exact=False)
    both = dataclasses.replace(recorded(8), collectives=(PSUM, gather))
    lines = list(as_text([plan_site(both, 4096)], Network(4096, 8), Link(50e9, 5e-6)))
    assert lines == [
        "4,096 devices, 512 hosts of 8; each works on a block of the recorded size",
        "",
        "train_step  train.py:12  pmap over i 8 -> 4096",
        "  each device holds 4.06 KiB of arguments and 4.00 KiB of outputs, of which 4.00 KiB "
        "reuse donated arguments",
        "  2 psums over i: 1000 B of operands; each device sends 1.95 KiB per call (1.71 KiB on 8)"
        ", each host 1.95 KiB; 81.9 ms as a ring, 240 µs as a tree",
        "  1 all_gather over i: at least 512 B of operands; each device sends 2.00 MiB per call "
        "(3.50 KiB on 8), each host 2.00 MiB; 20.5 ms as a ring, 102 µs as a tree",
        "  each device sends 2.00 MiB per call",
        "  the same on 4,096 devices: state, 4.00 KiB on each, 16.0 MiB in all; split, it would be "
        "1 B on each",
        "  grows with the devices: all_gather, whose results take 2.00 MiB on each device",
        "  taken to stay as recorded, but may depend on the devices: the outputs; record with "
        "--plan-for 4096 to know, or pass --also with a capture of another number of devices",
    ]


def test_json_has_the_same_numbers():
    plan = plan_site(recorded(8), 64)
    tree = as_tree([plan], Network(64, 8), Link(50e9, 5e-6))
    (told,) = tree["sites"]
    assert told["arguments"] == plan.arguments
    assert told["collectives"][0]["sent"] == plan.transfers[0].sent
    assert told["collectives"][0]["tree_seconds"] == plan.transfers[0].seconds(Link(50e9, 5e-6))[1]


def test_a_program_that_was_lowered_for_the_mesh():
    gather = Collective("all_gather", ("i",), 1, 8)
    larger = LargerMesh({"i": 64}, (gather,), outputs=40)
    both = dataclasses.replace(recorded(8), collectives=(PSUM,), larger=(larger,))
    plan = plan_site(both, 64)
    assert (plan.outputs, plan.assumed) == (40, ())
    assert [transfer.collective for transfer in plan.transfers] == [gather]
    text = "\n".join(as_text([plan], Network(64), None))
    assert "1 all_gather over i: 8 B of operands; each device sends 504 B per call\n" in text
    assert text.endswith("  lowered for this mesh")
    assert plan_site(both, 32).lowered is None


def test_a_program_that_cannot_be_lowered_for_the_mesh():
    larger = LargerMesh({"i": 64}, error="ValueError: 64 and 8")
    both = dataclasses.replace(recorded(8), collectives=(PSUM,), larger=(larger,))
    plan = plan_site(both, 64)
    assert [transfer.collective for transfer in plan.transfers] == [PSUM]
    text = "\n".join(as_text([plan], Network(64), None))
    assert text.endswith("  it cannot be lowered for this mesh: ValueError: 64 and 8")
    assert as_tree([plan], Network(64), None)["sites"][0]["lowered"] is False
