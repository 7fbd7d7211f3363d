"""The page in a real browser: Debian's chromium, without a window."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import shutil
from pathlib import Path

import pytest

from shardlift.report.html import page
from shardlift.report.view import view_of
from tests import children
from tests.capture.captures import NASTY, everything

CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine"),
]

# Runs in the page, after its own script: what a person would try, and what must not have happened.
TRIAL = """<script>{
const lanes = document.querySelector(".lanes");
const before = lanes.getAttribute("viewBox");
document.querySelector('.zoom button[title="zoom in"]').click();
const zoomed = lanes.getAttribute("viewBox");
document.querySelector('.zoom button[title="the whole run"]').click();
const root = document.documentElement;
document.body.dataset.trial = JSON.stringify({
  zooms: zoomed !== before,
  back: lanes.getAttribute("viewBox") === before,
  copies: document.querySelectorAll("pre button").length,
  findings: document.querySelectorAll(".finding").length,
  alerted: Boolean(window.alerted),
  scripts: document.querySelectorAll("article script, header script").length,
  lanes: [...document.querySelectorAll(".lanenames li")].map(
    (name) => [name.title, name.offsetWidth > 0, name.scrollHeight <= name.clientHeight]),
  wide: root.scrollWidth - root.clientWidth,
  dark: matchMedia("(prefers-color-scheme: dark)").matches,
  paper: getComputedStyle(document.body).backgroundColor,
  ink: getComputedStyle(document.body).color,
  requests: performance.getEntriesByType("resource").length,
});
}</script></body>"""


def opened(folder: Path, name: str, *options: str) -> str:
    """The document as the browser has it after it ran the page."""
    text = page(view_of(everything(name), "run.json"), everything("after"))
    path = folder / "page.html"
    # The policy of the page allows its own script only: this one is added to it.
    script = TRIAL.removeprefix("<script>").removesuffix("</script></body>")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    text = text.replace("script-src ", f"script-src &#x27;sha256-{digest}&#x27; ", 1)
    path.write_text(text.replace("</body>", TRIAL).replace("alert(1)", "window.alerted=1"))
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    profile = f"--user-data-dir={folder / 'profile'}"
    done = children.run([*command, profile, *options, path.as_uri()])
    assert done.returncode == 0, done.stderr
    return done.stdout


def trial(dom: str) -> dict:
    found = re.search(r'data-trial="([^"]*)"', dom)
    assert found, "the page's script did not run to its end"
    return json.loads(html.unescape(found.group(1)))


def test_on_a_desk(tmp_path):
    seen = trial(opened(tmp_path, NASTY, "--window-size=1200,900"))
    assert seen["zooms"]
    assert seen["back"]
    assert seen["copies"] == seen["findings"] > 0
    assert (seen["alerted"], seen["scripts"], seen["requests"]) == (False, 0, 0)
    assert seen["wide"] == 0
    assert not seen["dark"]


def test_on_a_phone_in_the_dark(tmp_path):
    options = ["--window-size=500,900", "--blink-settings=preferredColorScheme=0"]
    seen = trial(opened(tmp_path, "a_name_without_any_space_" * 8, *options))
    assert seen["dark"]
    assert seen["wide"] == 0
    assert _light(seen["ink"]) > 200 > 60 > _light(seen["paper"])


def test_the_timeline_has_its_labels_on_a_phone(tmp_path):
    name = "train_step_with_dropout"
    lanes = trial(opened(tmp_path, name, "--window-size=500,900"))["lanes"]
    assert lanes
    for title, is_shown, is_whole in lanes:
        assert is_shown, title
        assert is_whole or len(title) > len(name), title


def _light(colour: str) -> float:
    return sum(map(int, re.findall(r"\d+", colour)[:3])) / 3
