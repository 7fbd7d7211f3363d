"""The newest JAX that a project's requirements allow."""

from __future__ import annotations

import pytest

from shardlift.source.model import Version, version
from shardlift.source.target import NEWEST, newest_allowed


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("jax", NEWEST),
        ("jax>=0.4", NEWEST),
        ("jax[cuda12]>=0.4,<0.6", (0, 5, 999)),
        ("jax==0.4.30", (0, 4, 30)),
        ("jax==0.4.*", (0, 4, 999)),
        ("jax<0.4.30", (0, 4, 29)),
        ("jax <= 0.7.2 ; python_version > '3.9'", (0, 7, 2)),
        ("jax~=0.4.30", (0, 4, 999)),
        ("jax~=0.4.30,!=0.4.31", (0, 4, 999)),
        ("jax<1", NEWEST),
        ("jax!=0.5.0", NEWEST),
        ("jax!=0.12.*", (0, 11, 999)),
        ("jax==0.12.0.1", NEWEST),
        ("jax>=99", NEWEST),
        ("    jax==0.4.30  # pinned", (0, 4, 30)),
        ("jax==0.4.30 --hash=sha256:00", (0, 4, 30)),
        ("jax==0.4.30 \\", (0, 4, 30)),
        ("jax @ https://example.org/jax.whl", NEWEST),
        ("JAX<0.5", (0, 4, 999)),
    ],
)
def test_newest_allowed(line: str, expected: Version) -> None:
    assert newest_allowed([line]) == expected


@pytest.mark.parametrize(
    "line",
    ["", "# jax", "jaxlib==0.4.1", "numpy", "jaxtyping<3", "jax = nonsense", "jax<<1", "-r a"],
)
def test_lines_that_say_nothing_about_jax(line: str) -> None:
    assert newest_allowed([line]) is None


def test_the_tightest_requirement_counts() -> None:
    assert newest_allowed(["jax", "jax<0.6", "jax<0.5"]) == (0, 4, 999)


def test_a_version_is_its_numbers() -> None:
    assert version("0.10.2") == version("0.10.2.dev20260101+g0ab") == (0, 10, 2)
    with pytest.raises(ValueError, match="new"):
        version("new")
