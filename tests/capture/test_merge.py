"""The captures of many processes as one."""

import dataclasses

import pytest

from shardlift.capture import files
from shardlift.capture.schema import HOST, LeafFacts, Move, MovedBy, Proof
from shardlift.capture.schema import Capture as Whole
from shardlift.facts import Capture, merge

from .captures import SPLIT, everything, leaf, process, site


def job(*leaves: LeafFacts) -> list[Capture]:
    """One capture a process; each has one argument."""
    return [
        Whole(
            started=100.0 + k,
            seconds=10.0,
            processes=(process(k, len(leaves)),),
            sites=(site(arguments=(one,), processes=(k,)),),
            used={"x": 1},
            sources={"a.py": "digest", "b.py": f"digest of {k}"},
        )
        for k, one in enumerate(leaves)
    ]


def test_counts_times_and_bytes_are_added() -> None:
    both = merge(job(leaf(), leaf()))
    (merged,) = both.sites
    assert (merged.calls, merged.looked) == (24, 8)
    assert merged.processes == (0, 1)
    assert merged.times.call.count == 20
    assert merged.times.call.quantile(0.5) == site().times.call.quantile(0.5)
    assert merged.arguments[0].nbytes == 2 * leaf().nbytes
    assert merged.compile_count == 1
    assert [p.index for p in both.processes] == [0, 1]
    assert both.used == {"x": 2}
    assert both.sources == {"a.py": "digest", "b.py": ""}  # each process read another b.py


def test_the_order_of_the_files_does_not_matter() -> None:
    captures = job(leaf(), leaf())
    assert merge(captures[::-1]) == merge(captures)


@pytest.mark.parametrize(
    ("first", "second", "equal"),
    [
        ((True, "a"), (True, "a"), True),
        ((True, "a"), (True, "b"), False),  # the same here and there, but another value there
        ((True, "a"), (False, "a"), False),
        ((None, None), (True, "a"), None),
        ((None, None), (False, "a"), False),
    ],
)
def test_equal_everywhere_needs_the_same_value(first, second, equal) -> None:
    leaves = [leaf(equal=e, digest=d, compared=int(e is not None)) for e, d in (first, second)]
    assert merge(job(*leaves)).sites[0].arguments[0].equal is equal


def test_what_is_seen_by_one_process_only_is_kept() -> None:
    one, two = job(leaf(), leaf())
    extra = site(function="only_here", processes=(1,))  # on the same line
    moves = (Move("x", HOST, SPLIT, 8, 2, MovedBy.PROGRAM),)
    two = dataclasses.replace(
        two, sites=(extra, dataclasses.replace(two.sites[0], moves=moves)), unseen=("this",)
    )
    both = merge([one, two])
    assert [s.function for s in both.sites] == ["train_step", "only_here"]
    assert both.sites[0].moves == moves
    assert both.unseen == ("this",)


def test_proofs_hold_if_all_processes_have_the_same() -> None:
    proof = Proof("output", 1, (0,))
    for other, kept in ((proof, (proof,)), (dataclasses.replace(proof, needs=(1,)), ())):
        parts = [
            dataclasses.replace(part, sites=(dataclasses.replace(part.sites[0], proofs=(one,)),))
            for part, one in zip(job(leaf(), leaf()), (proof, other), strict=True)
        ]
        assert merge(parts).sites[0].proofs == kept


def test_moves_and_reads_on_both_are_added() -> None:
    both = merge([everything(), dataclasses.replace(everything(), processes=(process(1, 2),))])
    first, alone = both.sites[0], everything().sites[0]
    assert [(m.count, m.nbytes) for m in first.moves] == [
        (2 * m.count, 2 * m.nbytes) for m in alone.moves
    ]
    assert [(r.count, r.seconds) for r in first.reads] == [
        (2 * r.count, 2 * r.seconds) for r in alone.reads
    ]
    assert files.loads(files.dumps(both)).sites[0].key == first.key


def test_one_is_itself_and_none_is_refused() -> None:
    assert merge([everything()]) == everything()
    with pytest.raises(ValueError, match="at least one"):
        merge([])
