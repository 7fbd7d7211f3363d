"""What a report advises, and when it keeps quiet."""

import re
import shlex

import pytest

from shardlift.capture.schema import (
    HOST,
    Capture,
    CompileReason,
    Distribution,
    Move,
    MovedBy,
    Read,
    ReadBy,
    ReasonKind,
    Times,
)
from shardlift.check.rules import all_rules
from shardlift.cli import COMMANDS
from shardlift.report.findings import findings_of, timed
from tests.capture.captures import DEVICE_3, FIRST, SPLIT, everything, leaf, process, site

ONE = Capture(processes=(process(),))
MANY = Capture(processes=(process(0, 2), process(1, 2)))


QUIET = {
    "nothing": {},
    "a small leaf that is equal": {"arguments": (leaf(nbytes=64, equal=True, compared=3),)},
    "a large leaf that was not compared": {"arguments": (leaf(),)},
    "a large leaf that differs": {"arguments": (leaf(equal=False, compared=3),)},
    "donated and reused": {"arguments": (leaf(donated=True),)},
    "two programs": {"compiles": ((FIRST,),) * 2, "compile_count": 2},
    "a few bytes from the host": {"moves": (Move("x", HOST, SPLIT, 64, 4, MovedBy.PROGRAM),)},
    "no axis, and equal": {"outputs": (leaf(axis=None, equal=True, compared=3),)},
}
# Each kind of finding: the rules that its command names, and what it is found in.
LOUD = {
    "replicas": ("SL703", {"outputs": (leaf(axis=None, equal=False, compared=1),)}),
    "transformed": ("SL205", {"transformed": 2}),
    "compiles": ("SL206", {"compiles": ((FIRST,),) * 3, "compile_count": 3}),
    "host inputs": ("", {"moves": (Move("x", HOST, SPLIT, 2**24, 4, MovedBy.PROGRAM),)}),
    "moved inputs": ("SL303", {"moves": (Move("x", DEVICE_3, SPLIT, 2**24, 4, MovedBy.PMAP),)}),
    "donated": ("SL305", {"arguments": (leaf(donated=True, kept=1),)}),
    "equal": ("SL301", {"arguments": (leaf(equal=True, compared=3),)}),
    "read by index": ("SL401", {"reads": (Read(ReadBy.INDEX, "a.py", 1, 1, 4),)}),
    "read by unreplicate": ("SL402", {"reads": (Read(ReadBy.UNREPLICATE, "a.py", 1, 1, 4),)}),
    "read by device_get": ("SL404", {"reads": (Read(ReadBy.DEVICE_GET, "a.py", 1, 1, 4),)}),
    "nested": ("SL204", {"nested": 1}),
}


@pytest.mark.parametrize("name", QUIET)
def test_nothing_to_say(name):
    assert findings_of(site(**QUIET[name]), ONE) == []


@pytest.mark.parametrize("kind", LOUD)
def test_something_to_say(kind):
    rules, changes = LOUD[kind]
    (finding,) = findings_of(site(**changes), ONE)
    assert (finding.kind, finding.command.rpartition(" ")[2]) == (kind, rules)


def test_every_kind_is_tested():
    found = {f.kind for s in everything().sites for f in findings_of(s, everything())}
    assert found == set(LOUD)


def test_decisions_come_first():
    found = findings_of(everything().sites[0], everything())
    decisions = [finding.decision for finding in found]
    assert decisions == sorted(decisions, reverse=True)
    assert {f.kind for f in found if f.decision} == {"replicas"}


def test_under_a_transformation_many_processes_need_a_decision():
    changes = {"transformed": 1}
    for capture, decision, fix, rule in (
        (ONE, False, "Its cost there was not measured", "SL205"),
        (MANY, True, "computes over one process only", "SL601"),
    ):
        (finding,) = findings_of(site(**changes), capture)
        assert finding.decision is decision
        assert fix in finding.fix
        assert finding.command == f"shardlift rule {rule}"


@pytest.mark.parametrize(
    ("kind", "change", "words", "advice"),
    [
        ("type", ("x", "float32[8,4]", "float32[8,5]"), "x: float32[8,4] →", "the same shape"),
        ("static argument", ("0", "1", "2"), "static argument 0: 1 → 2", "as arrays"),
        ("weak type", ("x", "weak", "strong"), "x: weakly typed before", "a dtype"),
        ("placement", ("x", "host", SPLIT), "x: host → P('i') on cpu:0-7", "jax.device_put"),
        ("same arguments", (), "given a new function", "outside the loop"),
        ("structure", (), "structure of the arguments changed", "the same structure"),
        ("context", ("", "x64=False", "x64=True"), "x64=False → x64=True", "options"),
    ],
)
def test_the_fix_follows_from_the_reason(kind, change, words, advice):
    reason = CompileReason(ReasonKind(kind), *change)
    compiles = ((FIRST,), (reason,), (reason,))
    (finding,) = findings_of(site(compiles=compiles, compile_count=3), ONE)
    assert advice in finding.fix
    assert words in finding.what


@pytest.mark.parametrize(
    ("times", "by", "words"),
    [
        (4, MovedBy.PROGRAM, "every call copies 4.00 MiB"),
        (2, MovedBy.PROGRAM, "50 % of the calls copy 8.00 MiB"),
        (6, MovedBy.PMAP, "50 % of the calls copy 2.67 MiB"),
    ],
)
def test_how_often_something_is_moved(times, by, words):
    (finding,) = findings_of(site(moves=(Move("x", HOST, SPLIT, 2**24, times, by),)), ONE)
    assert finding.what.startswith(words)


def test_a_new_function_at_each_call_is_the_reason_to_change_first():
    again, typed = (CompileReason(kind) for kind in (ReasonKind.SAME_ARGUMENTS, ReasonKind.TYPE))
    compiles = ((FIRST,), (again,), (typed,))
    (finding,) = findings_of(site(compiles=compiles, compile_count=3), ONE)
    assert "outside the loop" in finding.fix
    assert finding.command == "shardlift rule SL206"


def test_a_second_program_is_a_finding_when_it_took_long():
    compiles = ((FIRST,), (CompileReason(ReasonKind.STRUCTURE),))
    slow = Times(compiling=Distribution(count=2, total=8.0, max=4.0))
    (finding,) = findings_of(site(compiles=compiles, compile_count=2, times=slow), ONE)
    assert (finding.kind, timed(finding)) == ("compiles", "4.00 s")


def test_one_value_for_all_that_goes_out_at_every_call_is_to_be_put_there_once():
    move = Move("w", DEVICE_3, "whole on each of cpu:0-7", 2**24, 4, MovedBy.PROGRAM)
    (finding,) = findings_of(site(moves=(move,), arguments=(leaf("w", axis=None),)), ONE)
    assert "in_axes=None" in finding.fix


def test_every_command_can_be_typed():
    rules = all_rules()
    for one in everything("it's a $(file)").sites:
        for finding in findings_of(one, everything()):
            if finding.kind == "host inputs":
                continue  # no rule looks for what is a new batch at each call
            program, command, *arguments = shlex.split(finding.command)
            assert program == "shardlift"
            assert command in {*COMMANDS, "migrate"}
            for code in re.findall(r"SL\d*", " ".join(arguments)):
                assert any(rule.startswith(code) for rule in rules)


def test_the_lines_that_read_are_named():
    reads = tuple(Read(ReadBy.INDEX, file, line, 1, 4) for file, line in (("a.py", 7), ("b.py", 9)))
    (finding,) = findings_of(site(file="a.py", reads=reads), ONE)
    assert "(a.py:7, b.py:9)" in finding.what
