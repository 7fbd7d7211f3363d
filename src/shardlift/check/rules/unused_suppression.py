"""A `# noqa` comment names a code of ours that nothing on its line is reported for.

Such a comment outlives the code that it excused, and would hide the next finding there.
Codes of other linters, and codes that this run did not look for, are left alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.model import Effect, Match, Rule


def visit(_: File) -> Iterator[Match]:
    """Nothing by itself: the engine knows, once all other rules have run, what was of use."""
    yield from ()


RULE = Rule(
    code="SL001",
    name="unused-suppression",
    effect=Effect.OLD,
    summary="a noqa comment that suppresses nothing",
    advice="Take the code out of the comment.",
    explain=__doc__,
    reference="https://docs.astral.sh/ruff/linter/#error-suppression",
    visit=visit,
    words=("noqa",),
    bad=(
        "x = 1  # noqa: SL201",
        "import jax\nx = jax.tree.map(f, t)  # noqa: SL105",
    ),
    good=(
        "x = 1  # noqa: E501",
        "x = 1  # noqa",
        "text = '# noqa: SL201'",
        "import jax\nx = jax.tree_map(f, t)  # noqa: SL105",
        "import jax\nstep = jax.pmap(f)  # noqa: E501, SL201",
    ),
)
