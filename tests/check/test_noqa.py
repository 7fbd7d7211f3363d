"""Suppressions, and the ones that suppress nothing."""

import pytest

from shardlift.check.engine import RuleSelection, check_text
from shardlift.check.noqa import find_suppressions
from shardlift.source.edits import apply_edits

HEAD = "import jax\n"


@pytest.mark.parametrize(
    "comment",
    [
        "# noqa",
        "# noqa: SL201",
        "#noqa:SL201",
        "# NOQA: sl201",
        "# noqa: E501, SL201",
        "# x # noqa",
    ],
)
def test_suppressed(comment: str) -> None:
    report = check_text(f"{HEAD}g = jax.pmap(f)  {comment}")
    assert report.findings == ()
    assert report.suppressed == 1


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        (f"{HEAD}g = jax.pmap(f)  # noqa: SL402", ["SL201", "SL001"]),  # another code
        (f"{HEAD}g = jax.pmap(\n    f,\n)  # noqa: SL201", []),  # on the last line of a call
        (f"{HEAD}g = jax.pmap(f)  # noqa: E501, SL201", []),
        ("x = 1  # noqa: SL999", ["SL001"]),  # there is no such rule
        (f"{HEAD}g = jax.pmap(f, axis_name='# noqa: SL201')", ["SL201"]),  # in a string
    ],
)
def test_what_is_left(text: str, codes: list[str]) -> None:
    assert [finding.code for finding in check_text(text).findings] == codes


def test_the_column_of_an_unused_suppression_counts_characters() -> None:
    text = 'x = "éé"  # noqa: SL201, E501\n'
    (finding,) = check_text(text).findings
    assert finding.span.column == text.index("#")
    assert apply_edits(text, finding.edits) == 'x = "éé"  # noqa: E501\n'


def test_a_code_that_was_not_looked_for_is_not_unused() -> None:
    text = f"{HEAD}g = jax.pmap(f)  # noqa: SL201"
    assert check_text(text, RuleSelection(ignore=("SL201",))).findings == ()


def test_a_text_that_is_not_python_has_comments_or_none() -> None:
    assert len(find_suppressions("x = 1\x00.4  # noqa: SL201\n")) <= 1
    assert find_suppressions("x = (  # noqa: SL201\n")[1].codes == ("SL201",)
