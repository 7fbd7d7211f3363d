"""The page in a real browser: Debian's chromium, without a window."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from shardlift.report.html import page
from shardlift.report.view import view_of
from tests.browser import in_browser, try_page
from tests.capture.captures import NASTY, everything

pytestmark = [pytest.mark.slow, in_browser]

# Runs in the page, after its own script: what a person would try, and what must not have happened.
TRIAL = """
const root = document.documentElement;
const trial = {
  copies: document.querySelectorAll("pre button").length,
  findings: document.querySelectorAll(".finding").length,
  alerted: Boolean(window.alerted),
  scripts: document.querySelectorAll("article script, header script").length,
  wide: root.scrollWidth - root.clientWidth,
  dark: matchMedia("(prefers-color-scheme: dark)").matches,
  paper: getComputedStyle(document.body).backgroundColor,
  ink: getComputedStyle(document.body).color,
  requests: performance.getEntriesByType("resource").length,
};
"""


def trial(folder: Path, name: str, *options: str) -> dict:
    text = page(view_of(everything(name), "run.json"))
    return try_page(text.replace("alert(1)", "window.alerted=1"), TRIAL, folder, *options)


def test_on_a_desk(tmp_path):
    seen = trial(tmp_path, NASTY, "--window-size=1200,900")
    assert seen["copies"] == seen["findings"] > 0
    assert (seen["alerted"], seen["scripts"], seen["requests"]) == (False, 0, 0)
    assert seen["wide"] == 0
    assert not seen["dark"]


def test_on_a_phone_in_the_dark(tmp_path):
    options = ["--window-size=500,900", "--blink-settings=preferredColorScheme=0"]
    seen = trial(tmp_path, "a_name_without_any_space_" * 8, *options)
    assert seen["dark"]
    assert seen["wide"] == 0
    assert _light(seen["ink"]) > 200 > 60 > _light(seen["paper"])


def _light(colour: str) -> float:
    return sum(map(int, re.findall(r"\d+", colour)[:3])) / 3
