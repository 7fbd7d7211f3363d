"""The harness itself: what a page may show, and what it may not."""

import contextlib
from pathlib import Path

import pytest

from tests.docs import pages
from tests.docs.pages import blocks_of
from tests.docs.running import MismatchError, Runner, plain

# What the pages themselves do not show that they need.
GOOD = {
    "ellipsis": "'''python\nprint('a b c')\n'''\n'''output\na ... c\n'''\n",
    "after it": "'''python\n1 / 0\n'''\n'''pytb\nZeroDivisionError: ...\n'''\n'''python\n2\n'''\n",
    "marked": "<!-- not run: no reason -->\n'''python\n1 / 0\n'''\n",
    "another JAX": "<!-- jax: >=99 -->\n'''python\n1 / 0\n'''\n",
    "command": "'''console\n$ echo one; echo two\none\ntwo\n$ echo 3 s\n4 s\n'''\n",
}
BAD = {
    "another output": "'''python\nprint(1)\n'''\n'''output\n2\n'''\n",
    "another error": "'''python\nraise ValueError('no')\n'''\n'''pytb\nValueError: yes\n'''\n",
    "no error": "'''python\n1\n'''\n'''pytb\nValueError: no\n'''\n",
    "prompts": "'''python\n>>> 1 + 1\n3\n'''\n",
    "not a part": "<!-- file: a.py -->\n'''python\nx = 1\n'''\n"
    "<!-- part of: a.py -->\n'''python\ny = 2\n'''\n",
    "command": "'''console\n$ echo one\ntwo\n'''\n",
    "failed": "'''sh\nfalse\n'''\n",
    "diff": "'''sh\necho a\n'''\n'''diff\n-b\n'''\n",
}
AFTER = ("", "'''python\n2\n'''\n", "'''sh\ntrue\n'''\n")  # an error that is not shown


@pytest.mark.parametrize(
    ("text", "error"),
    [
        *((text, None) for text in GOOD.values()),
        *((text, MismatchError) for text in BAD.values()),
        *((f"'''python\n1 / 0\n'''\n{after}", ZeroDivisionError) for after in AFTER),
    ],
)
def test_what_holds_passes_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, error: type[Exception] | None
) -> None:
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    (tmp_path / "page.md").write_text(text.replace("'''", "```"))
    with contextlib.nullcontext() if error is None else pytest.raises(error):
        Runner(tmp_path).run(blocks_of(tmp_path / "page.md"))


def test_a_block_that_does_not_end(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("```python\n1\n")
    with pytest.raises(ValueError, match="does not end"):
        blocks_of(tmp_path / "page.md")


def test_what_is_taken_out() -> None:
    assert plain("12 calls, 3.4 ms, 41 % on JAX 0.12.0.1") == "12 calls, N, N % on JAX N\n"
    assert plain("/tmp/x/train.py:14 loss 0.047") == "train.py:14 loss 0.047\n"
