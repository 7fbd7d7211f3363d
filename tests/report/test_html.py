"""The page: well formed, whole by itself, and everything in it is text."""

import dataclasses
import re
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from shardlift.capture.schema import Capture, Distribution, Times
from shardlift.report.html import page
from shardlift.report.html.markup import Markup, escape, join, tag
from shardlift.report.view import view_of
from tests.capture.captures import NASTY, everything, site

ALLOWED = {
    "html", "head", "meta", "title", "style", "body", "main", "header", "section",
    "article", "footer", "h1", "h2", "h3", "p", "div", "span", "b", "a", "ul", "li", "dl", "dt",
    "dd", "pre", "code",
}  # fmt: skip


class Reader(HTMLParser):
    """Checks that elements nest, and gathers them."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text: list[str] = []

    def handle_starttag(self, name, attributes):
        self.tags.append(name)
        self.attributes += attributes
        self.open.append(name)

    def handle_endtag(self, name):
        assert self.open.pop() == name

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.text.append(data)


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == []
    return reader


def test_it_is_well_formed_and_shows_everything():
    html = page(view_of(everything(), "run.json"))
    assert 'class="chip decide">1 needs a decision<' in html
    reader = read(html)
    assert set(reader.tags) <= ALLOWED
    text = " ".join(reader.text)
    for words_ in ("of step time is moving data", "Not seen", "To decide",
                   "shardlift rule SL703", "eval_step", "Times are measured"):  # fmt: skip
        assert words_ in text


def test_strings_are_text_wherever_they_go():
    html = page(view_of(everything(NASTY), "<script>run.json"))
    reader = read(html)
    assert set(reader.tags) <= ALLOWED
    assert "alert(1)" in " ".join(reader.text)
    assert not [name for name, _ in reader.attributes if name.startswith("on")]


def test_it_asks_nothing_of_the_network():
    html = page(view_of(everything(), "run.json"))
    reader = read(html)
    links = [value for name, value in reader.attributes if name in ("src", "href", "action")]
    assert all(re.fullmatch(r"#site\d+", value) for value in links)
    assert not re.search(r"https?:|//[a-z]|@import|url\(|fetch\(|XMLHttp|import\(", html)
    assert "default-src &#x27;none&#x27;" in html
    assert "<script" not in html


def test_times_that_are_not_known():
    """Waiting is only sampled; a run whose calls all compiled has no times at all."""
    assert "this run has no pmap site" in page(view_of(Capture(), "run.json"))
    timed = page(view_of(Capture(sites=(site(),)), "run.json"))
    assert "not seen" not in timed
    times = dataclasses.replace(site().times, waiting=Distribution())
    html = page(view_of(Capture(sites=(site(times=times),)), "run.json"))
    assert "waiting not seen</li>" in html
    assert 'class="bar"' not in page(view_of(Capture(sites=(site(times=Times()),)), "run.json"))


def test_the_parts_of_the_time_are_to_scale():
    html = page(view_of(Capture(sites=(site(),)), "run.json"))
    assert 'aria-label="waiting 33 %, dispatch 50 %, moving 17 %"' in html
    widths = re.findall(r'class="part (\w+)" style="flex-grow:([\d.]+)"', html)[:3]
    assert widths == [("waiting", "0.33333"), ("dispatch", "0.50000"), ("moving", "0.16667")]
    legend = re.findall(r'class="dot (\w+)"></span>\w+ <b>([\d.]+)', html)[:3]
    assert legend == [("waiting", "33"), ("dispatch", "50"), ("moving", "17")]
    assert "<dt>axis</dt><dd>i = 8</dd>" in html
    assert "<dt>compiling \N{MULTIPLICATION SIGN}1</dt><dd>800 ms</dd>" in html


# ---- its parts


@given(st.text())
def test_escaping(text):
    assert not set(escape(text)) & set("<>\"'")
    assert re.sub(r"&(lt|gt|amp|quot|#x27);", "", escape(text)).count("&") == 0


def test_markup_is_not_escaped_twice():
    assert tag("p", tag("b", "<")) == "<p><b>&lt;</b></p>"
    assert join(Markup("<i>"), "<i>") == "<i>&lt;i&gt;"
    assert tag("a", href='"x"') == '<a href="&quot;x&quot;"></a>'
