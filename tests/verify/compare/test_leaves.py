"""Two leaves: whether they can be compared, and how they differ; pairs of sites and leaves."""

from __future__ import annotations

import numpy as np
import pytest

from shardlift.capture.files import CaptureError
from shardlift.capture.layouts import numpy_dtype
from shardlift.capture.pairs import best_match
from shardlift.capture.schema import Capture, Form, Part, Sample, Site, SiteKind, Values
from shardlift.capture.values import name_of
from shardlift.verify.compare.bits import Distance
from shardlift.verify.compare.judge import notes_on_jits
from shardlift.verify.compare.leaves import is_array, nearly, structure, words
from shardlift.verify.compare.pairs import pair, pair_leaves
from shardlift.verify.compare.recorded import Recorded


def _form(
    path: str = "x", dtype: str = "float32", shape: tuple[int, ...] = (8, 2), **more: bool
) -> Form:
    return Form(path, dtype, shape, **more)


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (_form(), _form(), None),
        (_form(), _form(shape=(16,)), None),
        (_form(), _form(dtype="bfloat16"), "float32 before, bfloat16 after"),
        (_form(), _form(shape=(3,)), "shape (8, 2) before, (3,) after"),
        (_form(), _form(agree=False), "one value before; the copies on the devices disagree after"),
    ],
)
def test_structures(before: Form, after: Form, text: str | None) -> None:
    found = structure(before, after)
    assert (found[0] if found else None) == text


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("float32", True),
        ("bfloat16", True),
        ("key<fry>", True),
        ("str", False),
        ("nonsense", False),
    ],
)
def test_leaves_with_numbers(dtype: str, expected: bool) -> None:
    assert is_array(_form(dtype=dtype)) is expected


def test_rounding() -> None:
    ones = np.ones(3, np.float32)
    assert nearly(ones, ones * np.float32(1 + 1e-6))
    assert not nearly(ones, ones * 2)
    turned = np.ones(3, np.complex64) * 1j
    assert nearly(turned, turned * np.float32(1 + 1e-6))
    assert not nearly(turned, turned * 2)
    assert not nearly(np.ones(3, np.int32), np.ones(3, np.int32))


def test_distances_in_words() -> None:
    far = Distance(2, 8, ulps=5, relative=0.5, place=(1, 0), before="1.0", after="2.0")
    assert words(far) == (
        "2 of 8 elements differ, up to 5 ulps, by 0.5 of the largest number; "
        "at [1][0] 1.0 before, 2.0 after"
    )
    one = Distance(1, 1, ulps=2**20, relative=1.0, before="1.0", after="2.0")
    assert words(one) == "1 of 1 elements differ, by 1 of the largest number; 1.0 before, 2.0 after"


def test_dtypes() -> None:
    assert numpy_dtype("bfloat16").itemsize == 2
    assert numpy_dtype("key<fry>") == np.uint32


def _site(
    function: str, *names: str, kind: SiteKind = SiteKind.PMAP, shape: tuple[int, ...] = (8,)
) -> Site:
    values = Values(0, ("digest",))
    forms = ((Form("output", "float32", shape),),)
    samples = (Sample(0, outputs=values),)
    return Site("m.py", 1, function, names=names, kind=kind, samples=samples, forms=forms)


@pytest.mark.parametrize(
    ("before", "after", "pairs"),
    [
        ([_site("f"), _site("g")], [_site("g"), _site("f")], [(0, 1), (1, 0)]),
        ([_site("f")], [_site("g", "f")], [(0, 0)]),
        ([_site("f", "step")], [_site("g", "step")], [(0, 0)]),
        ([_site("f")], [_site("g")], [(0, 0)]),  # a pmap with outputs that fit
        ([_site("f")], [_site("g", shape=(3,))], []),
        ([_site("f", kind=SiteKind.JIT)], [_site("g", kind=SiteKind.JIT)], []),
        ([_site("f")], [Site("m.py", 1, "f")], []),  # never called
    ],
)
def test_pairs_of_sites(
    before: list[Site], after: list[Site], pairs: list[tuple[int, int]]
) -> None:
    assert pair(before, after) == pairs


def test_the_site_of_the_same_name() -> None:
    sites = [_site("f"), _site("g", "step"), _site("step")]
    assert best_match("step", (), sites) == 2
    assert best_match("h", ("step",), sites) == 2
    assert best_match("<lambda>", (), sites) is None


def test_pairs_of_leaves() -> None:
    a, b, c = (_form(path) for path in "abc")
    assert pair_leaves([a, b], [b, a]) == ([(0, 1), (1, 0)], [], [])
    assert pair_leaves([a, b], [a, c]) == ([(0, 0), (1, 1)], [], [])
    assert pair_leaves([a, b], [a]) == ([(0, 0)], ["b"], [])
    assert pair_leaves([a], [a, c]) == ([(0, 0)], [], ["c"])


def test_jits_of_one_program_are_named() -> None:
    jits = [_site(f"f{k}", kind=SiteKind.JIT) for k in range(6)]
    (note,) = notes_on_jits(Capture(), Capture(sites=tuple(jits)))
    assert note.startswith("jit functions only after, not compared: f0 (m.py:1), ")
    assert note.endswith(" and 2 more")
    assert notes_on_jits(Capture(), Capture()) == []


def test_arrays_that_were_not_kept_or_are_damaged() -> None:
    recorded = Recorded(Capture(), {})
    assert recorded.array(0, Sample(0), Part.OUTPUTS, 0, _form()) is None
    empty = recorded.array(0, Sample(0), Part.OUTPUTS, 0, _form(shape=(0, 2)))
    assert empty is not None
    assert empty.shape == (0, 2)
    name = name_of(0, 0, Part.OUTPUTS, 0)
    damaged = Recorded(Capture(), {name: np.zeros(3, np.uint8)})
    with pytest.raises(CaptureError, match=f"the values of {name} are damaged"):
        damaged.array(0, Sample(0), Part.OUTPUTS, 0, _form())
