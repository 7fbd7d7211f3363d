"""Verdicts of captures made by hand: what is the same, what is not, what was not looked at."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardlift.capture.schema import SiteKind
from shardlift.verify.compare.array_distance import Tolerance
from shardlift.verify.compare.judge import judge
from shardlift.verify.compare.verdicts import GapKind, ProgramVerdict, Side
from tests.verify.recording import by_hand, compared, one, program

rng = np.random.default_rng(0)
ROWS = rng.normal(size=(8, 2, 3)).astype(np.float32)
AXES = {"output": 0, "output[0]": 0, "output[1]": 0}


def verdict(before, after, tolerance=None, keep=2**20, **axes):
    """Of one leaf of one call."""
    kind = SiteKind.SHARD_MAP  # whose arrays may have any layout
    leaves = [{"f": [{"output": x}]} for x in (before, after)]
    sides = [by_hand(one_side, AXES, keep, devices=8, kind=kind) for one_side in leaves]
    return one(judge(*sides, tolerance))


CALLS = [{"output[0]": ROWS + k, "output[1]": ROWS[:, 0] * k} for k in range(3)]


@settings(max_examples=60)
@given(st.integers(0, 2), st.integers(0, 47), st.integers(0, 31), st.booleans())
def test_one_bit_of_one_row_of_one_call_is_found(call, place, bit, kept):
    changed = [dict(leaves) for leaves in CALLS]
    other = changed[call]["output[0]"].copy()
    other.reshape(-1).view(np.uint32)[place] ^= np.uint32(1 << bit)
    changed[call]["output[0]"] = other
    keep = 2**20 if kept else 0
    before, after = (by_hand({"f": c}, AXES, keep) for c in (CALLS, changed))
    assert one(judge(before, before)).verdict == "identical"
    found = one(judge(before, after))
    assert found.verdict == "different"
    assert (found.first.path, found.first.call, found.differing_calls) == ("output[0]", call, 1)
    if kept:
        assert found.first.distance.elements == 1
        assert np.ravel_multi_index(found.first.distance.place, (8, 2, 3)) == place
    else:
        assert "--keep-bytes" in found.first.what


@pytest.mark.parametrize(
    "array",
    [
        np.float32([[np.nan, np.inf], [-np.inf, -0.0]]),
        np.int32([2**31 - 1, -(2**31)]),
        np.zeros((8, 0, 2), np.float32),
        np.array([True, False]),
        np.array([1 + 2j, np.nan], np.complex64),
        np.arange(8).astype(ml_dtypes.bfloat16),
        np.arange(8).astype(ml_dtypes.float8_e4m3fn),
        np.arange(8).astype(ml_dtypes.int4),
        jnp.float32(3),
        7,
        2.5,
    ],
    ids=lambda x: str(getattr(x, "dtype", type(x).__name__)),
)
def test_every_type_is_identical_to_itself_and_not_to_another(array):
    assert verdict(array, array).verdict == "identical"
    assert verdict(array, array, keep=0).verdict == "identical"
    raw = np.array(array)
    if raw.size:
        other = raw.copy()
        other.reshape(-1)[-1] = np.asarray(0 if raw.reshape(-1)[-1] else 1, raw.dtype)
        found = verdict(raw, other)
        assert (found.verdict, found.first.distance.elements) == ("different", 1)
        assert verdict(raw, other, keep=0).verdict == "different"


def test_minus_zero_is_not_zero_but_close_to_it():
    left, right = np.float32([0.0, 1.0]), np.float32([-0.0, 1.0])
    assert verdict(left, right).verdict == "different"
    found = verdict(left, right, Tolerance(ulps=1))
    assert (found.verdict, found.first.distance.ulps, found.causes) == ("close", 0, ())


def test_typed_keys():
    keys = jax.random.split(jax.random.key(0), 8)
    assert verdict(keys, keys).verdict == "identical"
    found = verdict(keys, jnp.stack([keys[0]] * 8))
    assert found.verdict == "different"
    assert "all devices have the value of the first" in found.causes[0]
    raw = jax.random.key_data(keys)
    assert "key<fry> before, uint32 after" in verdict(keys, raw).first.what


def test_the_rows_of_a_pmap_have_no_other_layout():
    """More axes after it are another shape on each device."""
    before = by_hand({"f": [{"output": ROWS[:, 0]}]}, AXES, devices=8)
    for more in (ROWS[:, :1], np.stack([ROWS[:, 0]] * 8)):
        after = by_hand({"f": [{"output": more}]}, AXES, devices=8, kind=SiteKind.SHARD_MAP)
        assert one(judge(before, after)).verdict == "different"


def test_layouts():
    assert verdict(ROWS, ROWS.reshape(16, 3)).verdict == "identical"
    copies = np.stack([ROWS[0]] * 8)
    assert verdict(copies, ROWS[0]).verdict == "identical"
    assert verdict(ROWS[0], copies).verdict == "identical"
    assert verdict(np.float32([2.0] * 8), np.float32(2.0)).verdict == "identical"
    found = verdict(ROWS, ROWS.transpose(1, 0, 2).copy())
    assert "shape (8, 2, 3) before, (2, 8, 3) after" in found.first.what


def test_equal_rows_along_another_axis_are_another_array():
    rows = np.stack([np.arange(8, dtype=np.float32)] * 8)
    for keep in (0, 2**20):
        before = by_hand({"f": [{"output": rows}]}, {"output": 0}, keep)
        after = by_hand({"f": [{"output": rows.T.copy()}]}, {"output": 1}, keep)
        assert one(judge(before, after)).verdict == "different"
        assert one(judge(before, before)).verdict == "identical"


def test_more_calls_on_one_side():
    before, after = by_hand({"f": CALLS}, AXES), by_hand({"f": CALLS[:2]}, AXES)
    found = one(judge(before, after))
    assert (found.verdict, found.calls) == ("different", 2)
    assert found.first.what == "3 calls before, 2 after"


def test_a_site_in_one_only():
    before, after = by_hand({"f": CALLS, "g": CALLS}, AXES), by_hand({"f": CALLS}, AXES)
    for sides, place in (((before, after), "before"), ((after, before), "after")):
        found = judge(*sides)
        assert [site.verdict for site in found] == ["identical", "not reached"]
        assert getattr(found[1], place).function == "g"
        assert ProgramVerdict(Side("a"), Side("b"), tuple(found)).status == 1


def test_nothing_to_compare_is_not_identical():
    nothing = by_hand({"f": []}, AXES)
    found = judge(nothing, nothing)
    assert [site.verdict for site in found] == ["not reached"]
    assert ProgramVerdict(Side("a"), Side("b"), tuple(found)).status == 2
    empty = by_hand({"f": [{}]})
    assert one(judge(empty, empty)).verdict == "not compared"
    assert ProgramVerdict(Side("a"), Side("b"), ()).status == 2


def test_outputs_without_bytes_are_not_identical():
    deleted = jnp.ones(3)
    deleted.delete()
    side = by_hand({"f": [{"output": deleted}]})
    found = one(judge(side, side))
    assert found.verdict == "not compared"
    assert ProgramVerdict(Side("a"), Side("b"), (found,)).status == 1
    text = by_hand({"f": [{"output[0]": "text", "output[1]": ROWS}]})
    assert one(judge(text, text)).verdict == "identical"
    assert "output[0] (str) was not compared" in one(judge(text, text)).notes[0]


def test_a_failed_program_is_no_success():
    side = by_hand({"f": CALLS}, AXES)
    found = tuple(judge(side, side))
    assert ProgramVerdict(Side("a"), Side("b"), found).status == 0
    assert ProgramVerdict(Side("a"), Side("b", status=1), found).status == 1


LAMBDAS = """
X = np.arange(16, dtype="f4").reshape(8, 2)
a, b = MAP(lambda v: v + 1), MAP(lambda v: v * 2)
for k in range(3):
    a(X + k), b(X + k)
"""


def test_functions_that_are_exchanged() -> None:
    old = program(LAMBDAS.replace("MAP(", "jax.pmap("))
    new = LAMBDAS.replace("MAP(", "on_rows(")
    assert {site.verdict for site in compared(old, program(new))} == {"identical"}
    sites = compared(old, program(new.replace("a, b =", "b, a =")))
    assert [site.verdict for site in sites] == ["partly compared"] * 2
    assert {gap.kind for site in sites for gap in site.gaps} == {GapKind.ORDER}


def test_an_order_that_was_not_recorded() -> None:
    calls = {"f": [{"x": np.ones(2)}, {"x": np.ones(2)}], "g": [{"x": np.ones(3)}]}
    sites = judge(by_hand(calls), by_hand(dict(reversed(calls.items()))))
    assert [site.verdict for site in sites] == ["identical"] * 2


def test_the_order_of_calls_in_threads_is_a_matter_of_chance() -> None:
    text = LAMBDAS.replace("a(X + k), b(X + k)", "call(a, X + k), call(b, X + k)").replace(
        "a, b =",
        "import threading\n"
        "def call(f, x):\n"
        "    thread = threading.Thread(target=f, args=(x,))\n"
        "    thread.start(), thread.join()\n"
        "a, b =",
    )
    old, new = text.replace("MAP(", "jax.pmap("), text.replace("MAP(", "on_rows(")
    sites = compared(program(old), program(new.replace("a, b =", "b, a =")))
    assert [site.verdict for site in sites] == ["identical"] * 2
