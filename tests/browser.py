"""Pages in a real browser: Debian's chromium, without a window."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests import children

CHROMIUM = shutil.which("chromium")
in_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
QUIET = ("--no-first-run", "--disable-background-networking", "--disable-sync")


def try_page(text: str, script: str, folder: Path, *options: str) -> Any:
    """Open a page, run a script after its own, and return what that sets `trial` to."""
    script = f"{{{script}\ndocument.body.dataset.trial = JSON.stringify(trial);}}"
    # The policy of the page allows its own script only: this one is added to it.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    text = text.replace("script-src ", f"script-src &#x27;sha256-{digest}&#x27; ", 1)
    path = folder / "page.html"
    path.write_text(text.replace("</body>", f"<script>{script}</script></body>"))
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", *QUIET]
    profile = f"--user-data-dir={folder / 'profile'}"
    done = children.run([*command, profile, *options, path.as_uri()])
    assert done.returncode == 0, done.stderr
    match = re.search(r'data-trial="([^"]*)"', done.stdout)
    assert match, "the page's script did not run to its end"
    return json.loads(html.unescape(match[1]))
