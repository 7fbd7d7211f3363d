"""The newest JAX that a project's requirements allow."""

from __future__ import annotations

import pytest

from shardlift.source.model import Version, version
from shardlift.source.target import NEWEST, NEWEST_FLAX, Pin, newest_allowed

SILENT = ("", "# jax", "jaxlib==0.4.1", "numpy", "jaxtyping<3", "jax = nonsense", "jax<<1", "-r a")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("jax", NEWEST),
        ("jax>=0.4", NEWEST),
        ("jax[cuda12]>=0.4,<0.6", (0, 5, 3)),
        ("jax==0.4.30", (0, 4, 30)),
        ("jax==0.4.*", (0, 4, 38)),
        ("jax<0.4.30", (0, 4, 29)),
        ("jax <= 0.7.2 ; python_version > '3.9'", (0, 7, 2)),
        ("jax~=0.4.30", (0, 4, 38)),
        ("jax~=0.4.30,!=0.4.31", (0, 4, 38)),
        ("jax<1", NEWEST),
        ("jax!=0.5.0", NEWEST),
        ("jax!=0.12.*", (0, 11, 2)),
        ("jax==0.12.0.1", NEWEST),
        ("jax>=99", NEWEST),
        ("    jax==0.4.30  # pinned", (0, 4, 30)),
        ("jax==0.4.30 --hash=sha256:00", (0, 4, 30)),
        ("jax==0.4.30 \\", (0, 4, 30)),
        ("jax @ https://example.org/jax.whl", NEWEST),
        ("JAX<0.5", (0, 4, 38)),
        ("jax<0.4.16", (0, 4, 14)),
        *((line, None) for line in SILENT),
    ],
)
def test_newest_allowed(line: str, expected: Version | None) -> None:
    assert newest_allowed([line]) == expected


def test_the_tightest_requirement_counts() -> None:
    assert newest_allowed(["jax", "jax<0.6", "jax<0.5"]) == (0, 4, 38)


def test_a_version_is_its_numbers() -> None:
    assert version("0.10.2") == version("0.10.2.dev20260101+g0ab") == (0, 10, 2)
    with pytest.raises(ValueError, match="new"):
        version("new")


def test_flax_has_releases_of_its_own() -> None:
    assert newest_allowed(["jax<0.5", "flax<0.7"], "flax") == (0, 6, 11)
    assert newest_allowed(["flax"], "flax") == NEWEST_FLAX
    assert newest_allowed(["jax<0.5"], "flax") is None


@pytest.mark.parametrize(
    ("text", "raised"),
    [
        ("jax==0.4.30", "jax>=0.10"),
        ("jax", "jax>=0.10"),
        ("jax>=0.4", "jax>=0.10"),
        (
            "jax[cuda12]>=0.4,<0.6 ; python_version > '3.9'  # why",
            "jax[cuda12]>=0.10 ; python_version > '3.9'  # why",
        ),
        ("jaxlib<=0.4.30", "jaxlib>=0.10"),
        ("jax>=0.5.0,<=0.11.1", "jax>=0.10,<=0.11.1"),
        ("jax!=0.10.1,<1  # why", "jax>=0.10,!=0.10.1,<1  # why"),
    ],
)
def test_a_requirement_that_lets_older_releases_in_is_raised(text: str, raised: str) -> None:
    pin = Pin("requirements.txt", 1, text)
    assert pin.is_below((0, 10))
    assert pin.with_lower_bound((0, 10)) == raised
    assert not Pin("requirements.txt", 1, pin.with_lower_bound((0, 10))).is_below((0, 10))


@pytest.mark.parametrize(
    "text", ["jax>=0.10", "jax==0.12.0.1", "jax>0.10,<1", "flax<0.5", "jaxtyping"]
)
def test_other_requirements_stay(text: str) -> None:
    assert not Pin("requirements.txt", 1, text).is_below((0, 10))


@pytest.mark.parametrize("operator", ["==", "<", ">=", "<0.5,>=", "==="])
def test_a_number_of_thousands_of_digits_says_nothing(operator: str) -> None:
    line = f"jax{operator}{'9' * 5000}"
    assert newest_allowed([line]) is None
    assert not Pin("requirements.txt", 1, line).is_below((0, 10))
