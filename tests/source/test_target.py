"""The JAX and the flax that requirements let in."""

import pytest

from shardlift.source.model import Version, version
from shardlift.source.target import NEWEST_FLAX, Pin, newest_flax, oldest_flax

SILENT = ("", "# flax", "jax==0.4.1", "flaxen<3", "flax = nonsense", "flax<<1", "-r a")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("flax", NEWEST_FLAX),
        ("flax>=0.4,<0.6", (0, 5, 3)),
        ("flax==0.7.5", (0, 7, 5)),
        ("flax==0.6.*", (0, 6, 11)),
        ("flax~=0.6.3,!=0.6.11", (0, 6, 10)),
        ("flax>=99", NEWEST_FLAX),
        ("    flax==0.6.3  # pinned", (0, 6, 3)),
        ("flax==0.6.3 --hash=sha256:00", (0, 6, 3)),
        ("flax==0.6.3 \\", (0, 6, 3)),
        ("flax @ https://example.org/flax.whl", NEWEST_FLAX),
        ("FLAX<0.7", (0, 6, 11)),
        ("flax<0.6.6", (0, 6, 4)),  # there was no 0.6.5
        *((line, None) for line in SILENT),
    ],
)
def test_the_newest_flax_that_a_line_allows(line: str, expected: Version | None) -> None:
    assert newest_flax([line]) == expected


def test_the_tightest_requirement_counts() -> None:
    assert newest_flax(["flax", "flax<0.6", "flax<0.5"]) == (0, 4, 2)


@pytest.mark.parametrize(
    ("jax", "flax"), [((0, 4, 35), (0,)), ((0, 4, 36), (0, 10)), ((0, 12), (0, 12, 7))]
)
def test_the_oldest_flax_that_runs_with_a_jax(jax: Version, flax: Version) -> None:
    assert oldest_flax(jax) == flax


def test_a_version_is_its_numbers() -> None:
    assert version("0.10.2") == version("0.10.2.dev20260101+g0ab") == (0, 10, 2)
    with pytest.raises(ValueError, match="new"):
        version("new")


@pytest.mark.parametrize(
    ("text", "is_below"),
    [
        ("jax==0.4.30", True),
        ("jax", True),
        ("jax[cuda12]>=0.4,<0.6 ; python_version > '3.9'  # why", True),
        ("jaxlib<=0.4.30", True),
        ("jaxlib @ https://example.org/cuda11/jaxlib-0.3.25+cuda11-cp37.whl", True),
        ("jax@git+https://example.org/jax@jax-v0.4.1#egg=jax ; os_name=='nt'", True),
        ("jax>=0.5.0,<=0.11.1", True),
        ("jax!=0.10.1,<1  # why", True),
        ("jax>=0.10", False),
        ("jax==0.12.0.1", False),
        ("jax>0.10,<1", False),
        ("flax<0.5", False),
        ("jaxtyping", False),
        ("jax @ https://a.b/jax", False),
    ],
)
def test_a_requirement_that_lets_older_releases_in(text: str, is_below: bool) -> None:
    assert Pin("requirements.txt", text).is_below((0, 10)) is is_below


def test_whether_a_requirement_is_bounded() -> None:
    assert [Pin("", text).is_bounded for text in ("jax<1", "jax", "-r a")] == [True, False, False]


@pytest.mark.parametrize(
    ("text", "raised"),
    [
        ("jax[cuda12]>=0.4,<0.6 ; os_name=='nt'  # x", "jax[cuda12]>=0.10 ; os_name=='nt'  # x"),
        ("jaxlib @ https://a.b/jaxlib-0.3.25.whl", "jaxlib>=0.10"),
        ("jax@git+https://a.b/jax@jax-v0.4.1#egg=jax ; os_name=='nt'", "jax>=0.10 ; os_name=='nt'"),
        ("jax>=0.5.0,<=0.11.1", "jax>=0.10,<=0.11.1"),
        ("jax ~= 0.5", "jax >= 0.10"),
        ("jax==0.5; os_name == 'nt'", "jax>=0.10; os_name == 'nt'"),
        ("jax!=0.10.1,<1  # why", "jax>=0.10,!=0.10.1,<1  # why"),
    ],
)
def test_a_lower_bound_is_raised(text: str, raised: str) -> None:
    assert Pin("", text).with_lower_bound((0, 10)) == raised
    assert not Pin("", raised).is_below((0, 10))


def test_an_upper_bound_is_added_where_none_fits() -> None:
    assert Pin("", "jax<0.5").with_lower_bound((0, 7), (0, 10)) == "jax>=0.7,<0.10"
    assert Pin("", "jax<0.9").with_lower_bound((0, 7), (0, 10)) == "jax>=0.7,<0.9"


@pytest.mark.parametrize("operator", ["==", "<", ">=", "<0.5,>=", "==="])
def test_a_number_of_thousands_of_digits_says_nothing(operator: str) -> None:
    line = f"jax{operator}{'9' * 5000}"
    assert newest_flax([line.replace("jax", "flax")]) is None
    assert not Pin("requirements.txt", line).is_below((0, 10))
