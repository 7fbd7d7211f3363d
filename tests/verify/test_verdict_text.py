"""Outcomes as text, Markdown and JSON."""

import io
import json
import math
from dataclasses import replace

import pytest
from rich.console import Console

from shardlift.capture.schema import Capture, Part, SiteFacts, SiteKind
from shardlift.cli.formats.verdicts import document_of
from shardlift.verify.compare.array_distance import Distance
from shardlift.verify.compare.verdicts import (
    Gap,
    GapKind,
    LeafDifference,
    ProgramVerdict,
    Side,
    SitePlace,
    SiteVerdict,
    Verdict,
    place_of,
)
from shardlift.verify.verdict_text import (
    GAPS,
    advice,
    basis,
    describe_comparison,
    finding_lines,
    headline,
    machine,
    sentence,
    show,
)

BEFORE = SitePlace("train.py", 3, "step", SiteKind.PMAP, 2)
AFTER = SitePlace("new.py", 4, "step", SiteKind.SHARD_MAP, 2)
SMALL = Distance(1, 8, ulps=3, relative=1e-7, place=(0,), before="1.0", after="1.1")
FAR = Distance(1, 8, ulps=None, relative=math.inf, place=(0,), before="1.0", after="nan")


def _site(verdict: Verdict = Verdict.IDENTICAL, **fields: object) -> SiteVerdict:
    return SiteVerdict(verdict, BEFORE, AFTER, **{"calls": 2, "leaves": 4, **fields})  # type: ignore[arg-type]


def _finding(distance: Distance | None = FAR, **fields: object) -> LeafDifference:
    given = {"path": "loss", "call": 1, "part": Part.OUTPUTS, "what": "differs", **fields}
    return LeafDifference(**given, distance=distance)  # type: ignore[arg-type]


def _outcome(*sites: SiteVerdict, **fields: object) -> ProgramVerdict:
    return ProgramVerdict(Side("train.py", "0.10.2"), Side("new.py"), sites, **fields)  # type: ignore[arg-type]


def _shown(outcome: ProgramVerdict, quiet: bool = False) -> str:
    console = Console(file=io.StringIO(), width=200)
    show(outcome, console, quiet)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_programs_that_run_the_same_file_prove_nothing() -> None:
    same = replace(_site(), after=replace(BEFORE, kind=SiteKind.SHARD_MAP))
    assert _outcome(same).status == 0  # the file may have changed since the capture
    outcome = _outcome(same, live=True)
    assert outcome.status == 1
    assert "Both programs run the same code of train.py" in advice(outcome)[0]
    assert headline(outcome).endswith("both programs run the same one.")
    assert _outcome(same, _site(), live=True).status == 0


@pytest.mark.parametrize(
    ("sites", "text"),
    [
        ([], "no site was found in either program"),
        ([_site()], "1 site: 1 identical"),
        ([_site(), _site(Verdict.DIFFERENT), _site()], "3 sites: 1 different, 2 identical"),
        (
            [_site(Verdict.NOT_REACHED), _site(calls=9, collective_calls=2, collectives=4)],
            "2 sites: 1 not reached, 1 identical. Not looked at: 1 site not reached; collectives "
            "after the first 2 calls of a function.",
        ),
        (
            [_site(outputs_only=True, gaps=(Gap(GapKind.ONE_DEVICE),))],
            "1 site: 1 identical. Not looked at: what devices exchange: there was one (--devices 2 "
            "runs both programs on virtual CPU devices); collectives (--collectives 0).",
        ),
    ],
)
def test_headline(sites: list[SiteVerdict], text: str) -> None:
    assert headline(_outcome(*sites)) == text


@pytest.mark.parametrize(
    ("site", "text"),
    [
        (_site(), "4 outputs of 2 calls compared"),
        (
            _site(calls=1, leaves=1, collectives=1, collective_calls=1),
            "1 output of 1 call and 1 result of collectives compared",
        ),
        (
            _site(collectives=3, collective_calls=1),
            "4 outputs of 2 calls and 3 results of collectives in 1 call compared",
        ),
        (
            _site(Verdict.CLOSE, findings=(_finding(SMALL, close=True), _finding(None))),
            "4 outputs of 2 calls compared",
        ),
        (SiteVerdict(Verdict.NOT_COMPARED, BEFORE, AFTER), "no call was compared"),
        (SiteVerdict(Verdict.NOT_REACHED, BEFORE, None), "called 2 times before, and not after"),
        (
            SiteVerdict(Verdict.NOT_REACHED, None, SitePlace("a.py", 1, "f", SiteKind.PMAP, 1)),
            "called once after, and not before",
        ),
        (
            SiteVerdict(Verdict.NOT_REACHED, SitePlace("a.py", 1, "f", SiteKind.PMAP, 0), None),
            "never called in this run",
        ),
    ],
)
def test_basis(site: SiteVerdict, text: str) -> None:
    assert basis(site) == text


@pytest.mark.parametrize(
    ("finding", "text"),
    [
        (_finding(), "loss, call 2: differs"),
        (_finding(part=Part.CALLS, what="raised"), "call 2: raised"),
        (_finding(part=Part.INSIDE, about="psum(x)"), "loss of psum(x), call 2: differs"),
    ],
)
def test_sentences(finding: LeafDifference, text: str) -> None:
    assert sentence(finding) == text


def test_differences_come_before_close_ones_and_few_are_shown() -> None:
    findings = (
        _finding(path="close", close=True, call=0),
        *(_finding(path=f"x{k}", call=k) for k in (3, 1, 2, 4)),
    )
    lines = finding_lines(_site(findings=findings))
    assert [line.partition(",")[0] for line in lines[:4]] == ["x1", "x2", "x3", "x4"]
    assert lines[4] == "and 1 more (--format json lists all)"


@pytest.mark.parametrize(
    ("outcome", "option"),
    [
        (_outcome(_site()), None),
        (ProgramVerdict(Side("a"), Side("b", status=1), ()), "--patch-after"),
        (_outcome(_site(Verdict.DIFFERENT, findings=(_finding(SMALL),))), "--tolerance"),
        (_outcome(_site(Verdict.DIFFERENT, findings=(_finding(),))), None),
        (
            ProgramVerdict(Side("a", status=1, error="EOFError: EOF"), Side("b"), ()),
            "standard input",
        ),
    ],
)
def test_advice(outcome: ProgramVerdict, option: str | None) -> None:
    assert [option in text for text in advice(outcome) if option] == ([True] if option else [])
    assert option is not None or advice(outcome) == []


@pytest.mark.parametrize("kind", [*GapKind])
def test_a_verdict_on_less_than_everything_says_so(kind: GapKind) -> None:
    """In its first line, in the last one, in the exit status, and as JSON."""
    site = _site(Verdict.PARTLY_COMPARED, gaps=(Gap(kind, "psum: x", 3),))
    outcome = _outcome(site)
    assert outcome.status == 1
    assert "partly compared  step" in _shown(outcome)
    of_collectives = "collective" in kind
    assert ["--collectives 0" in text for text in advice(outcome)] == [True] * of_collectives
    rest = f". Not looked at: {GAPS[kind][1]}." if GAPS[kind][1] else ""
    shown = " ".join(_shown(outcome, quiet=True).split())
    assert shown == f"1 site: 1 partly compared{rest}"
    assert machine(outcome)["sites"][0]["gaps"][0]["kind"] == kind
    assert "3 times" in _shown(outcome)


def test_text() -> None:
    site = _site(Verdict.DIFFERENT, findings=(_finding(),), causes=("a [cause]",), notes=("note",))
    text = _shown(_outcome(site, notes=("about the run",)))
    for part in (
        "JAX 0.10.2",
        "different  step  train.py:3 (pmap) -> new.py:4 (shard_map)",
        "likely cause  a [cause]",
        "loss, call 2",
        "note",
    ):
        assert part in text
    assert text.rstrip().endswith("1 site: 1 different")
    assert _shown(_outcome(site), quiet=True) == "1 site: 1 different\n"
    alone = SiteVerdict(Verdict.NOT_REACHED, None, AFTER)
    assert "nothing -> new.py:4" in _shown(_outcome(alone))
    assert "identical (outputs only)  step" in _shown(_outcome(_site(outputs_only=True)))
    children = ProgramVerdict(Side("a", children=1), Side("b"), (_site(),))
    last = "1 site: 1 identical. Not looked at: calls in child processes."
    assert _shown(children).splitlines()[-1] == last


def test_output_of_a_failed_program_is_shown_without_control_characters() -> None:
    outcome = ProgramVerdict(Side("a"), Side("b\x1b", status=3, error="line\n\x1b[31mred"), ())
    text = _shown(outcome)
    assert "ended with status 3; calls up to then are compared" in text
    assert "\x1b" not in text
    assert r"\x1b[31mred" in text


def test_json_has_no_infinities() -> None:
    tree = machine(_outcome(_site(Verdict.DIFFERENT, findings=(_finding(),))))
    json.dumps(tree, allow_nan=False)
    assert tree["verdicts"]["different"] == 1
    assert tree["sites"][0]["name"] == "step"
    assert tree["sites"][0]["findings"][0]["distance"]["relative"] == "inf"


def test_rounding_is_called_that_with_its_bound() -> None:
    near, far = replace(SMALL, rounding=0.4), replace(SMALL, rounding=9.0)
    said = [
        describe_comparison(_site(Verdict.CLOSE, findings=(_finding(one, close=True),)))
        for one in (near, far)
    ]
    assert said[0].endswith(
        "equal to rounding, at most 1 ulp of the largest number of each array, "
        "because XLA fuses differently"
    )
    assert said[1].endswith("compared")
    differing = _outcome(_site(Verdict.DIFFERENT, findings=(_finding(near),)))
    assert "To accept them: --tolerance rounding=8" in _shown(differing)


def test_a_line_of_a_notebook_is_that_of_its_cell() -> None:
    capture = Capture(cells={"demo.ipynb": ((1, 1), (3, 9))})
    place = place_of(SiteFacts("demo.ipynb", 10, "step", SiteKind.PMAP), capture)
    verdict = replace(_site(), after=place)
    (item,) = json.loads(document_of(_outcome(verdict)))["done"]
    assert (item["path"], item["cell"], item["line"]) == ("demo.ipynb", 3, 2)
    assert place.where == "demo.ipynb:cell 3:2"
