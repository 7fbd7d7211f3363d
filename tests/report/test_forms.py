"""The forms of a report: terminal, page, JSON."""

import dataclasses
import io
import json

import pytest
from rich.console import Console

from shardlift.capture.schema import Capture
from shardlift.report import machine, terminal
from shardlift.report.view import view_of
from tests.capture.captures import NASTY, everything, leaf, site


def printed(capture, width=100, colours=False):
    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        highlight=False,
        force_terminal=colours,
        color_system="truecolor" if colours else None,
    )
    terminal.show(view_of(capture, "run.json"), console)
    return out.getvalue()


def test_the_terminal_says_the_sentence_first():
    lines = printed(everything()).splitlines()
    assert lines[0] == view_of(everything(), "run.json").headline
    assert "jax 0.12.0" in lines[1]
    assert lines[3].startswith("time of calls:")
    assert "time of calls" not in printed(Capture())
    for patched in (True, False):
        text = printed(dataclasses.replace(everything(), patched=patched))
        assert ("jax.pmap was only observed" in text) is not patched


def test_the_terminal_shows_sites_by_cost_with_fix_and_command():
    text = printed(everything())
    assert text.index("train_step  train_step.py:12") < text.index("eval_step  train.py:40")
    assert "12 calls  p50 4" in text
    assert "? out_axes=None, but the devices disagree: output[1]" in text
    assert "$ shardlift rule SL703" in text
    assert "- train_step was not seen" in text
    assert "- train_step (train_step.py:12): something about train_step" in text
    assert "Next: shardlift report run.json --html report.html" in text


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_terminal_keeps_to_its_width_but_for_commands(width):
    for line in printed(everything(), width).splitlines():
        free = line.lstrip().startswith(("$ ", "Next: ", "python "))
        assert len(line) <= width or free


def test_markup_of_rich_is_text():
    capture = everything("[bold]x[/bold]")
    assert "[bold]x[/bold]" in printed(capture)
    assert "[bold]x[/bold]" in printed(capture, colours=True)


def test_bars_are_to_scale():
    view = view_of(everything(), "run.json").sites[0]
    bar = terminal.bar(view)
    assert len(bar.plain) == terminal.WIDTH
    cells = {span.style: span.end - span.start for span in bar.spans}
    total = view.parts.total
    assert cells["blue"] == pytest.approx(view.parts.waiting / total * terminal.WIDTH, abs=1)


def test_json():
    tree = json.loads(machine.render(view_of(everything(NASTY), "run.json")))
    assert (tree["schema"], tree["version"]) == ("shardlift.report", 1)
    assert tree["decisions"] == 1
    assert tree["sites"][0]["function"] == NASTY
    assert tree["sites"][0]["seconds"]["moving"] > 0
    assert {f["kind"] for f in tree["sites"][0]["findings"]} >= {"replicas"}


@pytest.mark.parametrize(("number", "words"), [(1, "1 argument is"), (2, "2 arguments are")])
def test_one_or_several_arguments(number, words):
    capture = Capture(sites=(site(arguments=(leaf(),) * number),))
    (text,) = view_of(capture, "").unseen
    assert text == f"train_step (train.py:12): whether {words} the same on all devices"
