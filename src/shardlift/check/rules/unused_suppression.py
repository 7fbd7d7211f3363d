"""A `# noqa` comment names a shardlift code that suppresses nothing on its line.

Such a comment is a leftover of code that has changed, and would hide the next finding there. Codes
of other linters, and codes that this run does not check, are not reported.
"""

import re
from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.model import Level, Match, Rule, Suppression


def visit_unused(file: File, comment: Suppression) -> Iterator[Match]:
    """The comment, with an edit that keeps its other codes."""
    keep = [code for code in comment.codes if code not in comment.unused]
    edits = (file.replace(comment.node, f"# noqa: {', '.join(keep)}"),) if keep else ()
    message = f"nothing on this line is suppressed by {', '.join(comment.unused)}"
    yield Match(comment.node, message, edits)


RULE = Rule(
    code="SL001",
    level=Level.NOTE,
    summary="a noqa comment that suppresses nothing",
    advice="Remove the code from the comment.",
    reference="https://docs.astral.sh/ruff/linter/#error-suppression",
    visit_unused=visit_unused,
    words=("noqa",),
    pattern=re.compile(rb"noqa\s*:[A-Za-z0-9,\s]*[Ss][Ll][0-9]"),
    bad=("x = 1  # noqa: SL201", "import jax\nx = jax.tree.map(f, t)  # noqa: SL105"),
    good=(
        "x = 1  # noqa",
        "text = '# noqa: SL201'",
        "import jax\nx = jax.tree_map(f, t)  # noqa: SL105",
        "import jax\nstep = jax.pmap(f)  # noqa: E501, SL201",
    ),
)
