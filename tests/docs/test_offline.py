"""The site as it is built: without a network, on a phone, in a real browser."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

from tests import children
from tests.docs.pages import DOCS, ROOT

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.exhaustive
in_a_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("sphinx")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "-n", "-q", str(DOCS), str(folder)]
    children.run(command, cwd=ROOT, check=True)
    return folder


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = re.findall(
            r"<(?:script|link|img|iframe)[^>]*(?:src|href)=\"([^\"]*)\"", page.read_text()
        )
        elsewhere = [address for address in loaded if re.match(r"(https?:)?//", address)]
        assert not elsewhere, page


def _opened(address: str, folder: Path, *options: str) -> str:
    """The document after its scripts have run."""
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    slow = ["--virtual-time-budget=10000", "--host-resolver-rules=MAP * ~NOTFOUND"]
    profile = f"--user-data-dir={folder / 'profile'}"
    done = children.run([*command, *slow, profile, *options, address])
    assert done.returncode == 0, done.stderr
    return done.stdout


@in_a_browser
def test_search_works_from_a_folder(site: Path, tmp_path: Path) -> None:
    document = _opened(f"{(site / 'search.html').as_uri()}?q=psum_scatter", tmp_path)
    (results,) = re.findall(r'<ul[^>]*class="search"[^>]*>(.*?)</ul>', document, re.DOTALL)
    assert "<a " in results


WIDTH = """<script>addEventListener("load", () => {
  const root = document.documentElement;
  document.body.dataset.wide = root.scrollWidth - root.clientWidth;
})</script></body>"""


@in_a_browser
@pytest.mark.parametrize("page", ["index", "check", "commands/check", "editor", "upstream/index"])
def test_a_page_is_as_wide_as_a_phone(site: Path, tmp_path: Path, page: str) -> None:
    path = site / f"{page}.html"
    trial = path.with_name(f"trial_{path.name}")
    trial.write_text(path.read_text().replace("</body>", WIDTH))
    document = _opened(trial.as_uri(), tmp_path, "--window-size=500,900")
    (wide,) = re.findall(r'data-wide="(-?\d+)"', document)
    assert int(wide) <= 0
