"""Programs that use outputs on the host print the same after a migration: `tests.fuzz.migrate`."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import jax
import pytest

from shardlift.rewrite.goal import Goal
from tests.fuzz import migrate
from tests.fuzz.host_programs import Writer


@pytest.fixture(autouse=True)
def compile_quickly() -> Iterator[None]:
    """Also with `--exhaustive`, as `python -m tests.fuzz programs` does."""
    name = "jax_disable_most_optimizations"
    was = jax.config.values[name]
    jax.config.update(name, True)
    yield
    jax.config.update(name, was)


@pytest.mark.parametrize(
    "numbers", [range(2, 3), pytest.param(range(3, 40), marks=pytest.mark.exhaustive)]
)
def test_what_programs_print_stays(tmp_path: Path, numbers: range) -> None:
    counts: Counter[str] = Counter()
    found = [one for k in numbers for one in migrate.check(k, tmp_path / "program.py", counts)]
    assert found == [], found[0]
    assert counts["programs"] > 0.7 * len(numbers), counts
    # The others keep pmap: at most half of their sites could leave it.
    assert counts["shard_map, rewritten"] >= 0.9 * counts["programs"]


def test_a_wrong_migration_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that takes the first part of a tuple for the first device."""
    text = (
        "import jax, numpy as np\nf = jax.pmap(lambda x: (x, x * 10))\n"
        "print(np.asarray(f(np.ones(jax.local_device_count()))[0]))\n"
    )
    real = migrate.migrated

    def wrong(*args: object) -> tuple[str, bool]:
        after, left = real(*args)  # type: ignore[arg-type]
        return after.replace(
            "(jax.local_device_count()))[0]", "(jax.local_device_count()))[0][0]"
        ), left

    monkeypatch.setattr(Writer, "program", lambda _: text)
    assert migrate.check(0, tmp_path / "program.py", Counter()) == []
    monkeypatch.setattr(migrate, "migrated", wrong)
    found = migrate.check(0, tmp_path / "program.py", Counter())
    assert [one.goal for one in found] == [Goal.SHARD_MAP, Goal.GLOBAL]
