"""The engine: selection, targets, several files, files that cannot be read."""

import pytest

from shardlift.check.engine import RuleSelection, check_text, check_texts
from shardlift.source.model import version
from shardlift.source.settings import Settings

TEXT = "import jax\ng = jax.pmap(f)\ny = jax.tree_map(f, x)\n"


def _codes(
    text: str, options: RuleSelection = RuleSelection(), settings: Settings = Settings()
) -> list[str]:
    return [finding.code for finding in check_text(text, options, settings=settings).findings]


def test_select_and_ignore_take_prefixes() -> None:
    assert _codes(TEXT) == ["SL201", "SL105"]
    assert _codes(TEXT, RuleSelection(select=("SL1",))) == ["SL105"]
    assert _codes(TEXT, RuleSelection(ignore=("SL2",))) == ["SL105"]
    assert _codes(TEXT, RuleSelection(select=("SL105", "SL2"), ignore=("SL201",))) == ["SL105"]


def test_nested_pmaps_are_one_finding() -> None:
    text = "import jax\nf = jax.pmap(jax.pmap(g, 'j'), 'i')\nh = jax.pmap(g)\n"
    assert _codes(text) == ["SL204", "SL201"]
    assert _codes(text, RuleSelection(ignore=("SL204",))) == ["SL201"] * 3
    assert _codes(text, settings=Settings((0, 7))) == ["SL201"] * 3


@pytest.mark.parametrize("pattern", ["tests/*", "tests/**", "*_test.py", "tests/a_test.py"])
def test_per_file_ignores(pattern: str) -> None:
    options = RuleSelection(per_file_ignores={pattern: ("SL201",)})
    reports = check_texts({"tests/a_test.py": TEXT, "src/a.py": TEXT}, options)
    assert [f.code for f in reports["tests/a_test.py"].findings] == ["SL105"]
    assert [f.code for f in reports["src/a.py"].findings] == ["SL201", "SL105"]


def test_a_pattern_of_many_wildcards_takes_no_longer() -> None:
    options = RuleSelection(per_file_ignores={"*a" * 40 + "b": ("SL201",)})
    assert "SL201" in options.codes("a" * 200 + ".py", Settings())


@pytest.mark.parametrize(
    ("target", "codes"), [("0.4.30", ["SL201"]), ("0.5.3", ["SL201"]), ("0.6", ["SL201", "SL105"])]
)
def test_a_name_is_reported_from_the_release_that_dropped_it(target: str, codes: list[str]) -> None:
    assert _codes(TEXT, settings=Settings(version(target))) == codes


def test_a_whole_rule_can_be_of_a_later_jax() -> None:
    text = "import jax\nx = jax.device_put_replicated(x, d)"
    assert _codes(text, settings=Settings((0, 9, 2))) == []
    assert _codes(text, settings=Settings((0, 10))) == ["SL101"]


def test_nothing_that_a_rule_looks_for_is_not_parsed() -> None:
    report = check_text("this is no python")
    assert report.unreadable is None
    assert not report.parsed


def test_a_file_that_only_imports_a_wrapper_is_looked_at_too() -> None:
    texts = {
        "lib/par.py": "import jax\ndef everywhere(f):\n    return jax.pmap(f)\n",
        "lib/use.py": "from lib.par import everywhere\nstep = everywhere(f)\n",
        "lib/other.py": "from lib.stuff import nothing\n",
    }
    reports = check_texts(texts)
    assert [f.code for f in reports["lib/use.py"].findings] == ["SL201"]
    assert not reports["lib/other.py"].parsed
