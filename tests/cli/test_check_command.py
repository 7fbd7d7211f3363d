"""`shardlift check` and `shardlift rule` as a person runs them."""

import itertools
import json
import re
import shutil
from pathlib import Path

import pytest

from shardlift.check.rules import all_rules
from tests import children
from tests.cli.commands import check, run

PMAP = "import jax\n\nstep = jax.pmap(train, axis_name='i')\n"
FILES = {".git/HEAD": "", "train.py": PMAP, "other.py": "x = 1\n"}


def test_findings_exit_1(project: Path) -> None:
    result = check()
    first = "train.py:3:8: SL201 [migrate] `train` is pmapped\n"
    assert (result.exit_code, result.output.startswith(first)) == (1, True)
    assert check("-q").output == first
    assert "skipped: other.py" in check("--verbose").output
    none = check("other.py")
    assert none.exit_code == 0
    assert "No findings in 1 file, 0 pmap sites. Checked for JAX" in none.output
    assert "2 files: 1 read, 1 skipped" in result.output
    closing = " ".join(result.output.split("looks for). ")[-1].split())
    assert "1 finding in 1 file, 1 pmap site: 1 [migrate]. Checked for JAX 0.12" in closing
    assert closing.endswith("Next: shardlift migrate")


SLOW = "import jax\nstep = jax.jit(jax.pmap(f))\n"
BROKEN = "import jax\ny = jax.tree_map(f, x)\n"
BY_HAND = "from jax.experimental import host_callback\nhost_callback.barrier_wait()\n"


@pytest.mark.parametrize(
    ("text", "fails", "rewriters"),
    [
        (PMAP, {"note"}, "1 [migrate]"),  # right and fast: nothing to fix
        (SLOW, {"note", "slow"}, "1 [fix], 1 [migrate]"),
        (BROKEN + BY_HAND, {"note", "slow", "broken"}, "1 [fix], 1 by hand"),
    ],
)
def test_which_levels_fail_and_who_rewrites(
    project: Path, text: str, fails: set[str], rewriters: str
) -> None:
    (project / "train.py").write_text(text)
    levels = ("note", "slow", "broken")
    assert {level for level in levels if check("--fail-on", level).exit_code} == fails
    default = run("check")
    assert bool(default.exit_code) is ("slow" in fails)
    assert f": {rewriters}. Checked" in default.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["nowhere"], "nowhere"), (["empty"], "no .py or .ipynb file"), (["--select", "XX"], "XX")],
)
def test_nothing_that_could_be_checked_exits_2(
    project: Path, arguments: list[str], said: str
) -> None:
    (project / "empty").mkdir()
    result = check(*arguments)
    assert (result.exit_code, said in result.output) == (2, True)


def test_a_file_that_does_not_parse_is_named_and_counted(project: Path) -> None:
    (project / "old.py").write_text("print 'pmap'\n")
    result = check()
    assert result.exit_code == 2  # although there are findings in another one
    assert "train.py:3:8: SL201" in result.output
    assert "NOT looked at: 1 file." in result.output
    assert "old.py: line 1:" in result.output
    assert check("old.py").exit_code == 2
    cells = [{"cell_type": "code", "source": s} for s in ("import jax", "print 'pmap'")]
    (project / "old.ipynb").write_text(json.dumps({"cells": cells}))
    assert "NOT looked at in old.ipynb: cell 2 (not Python)." in check().output


def test_full_underlines_the_span(project: Path) -> None:
    lines = check("--format", "full").output.splitlines()
    assert lines[0] == "SL201 note [migrate]  `train` is pmapped"
    assert lines[1] == "  --> train.py:3:8"
    assert lines[2] == "   3 | step = jax.pmap(train, axis_name='i')"
    assert lines[3] == "     |        " + "^" * len("jax.pmap(train, axis_name='i')")
    assert lines[4] == "  Nothing, as long as it works. Leaving pmap: jax.jit(jax.shard_map(...))."
    cells = [{"cell_type": "code", "source": s} for s in ("import jax", "x = 1\njax.pmap(f)")]
    (project / "n.ipynb").write_text(json.dumps({"cells": cells}))
    output = check("n.ipynb", "--format", "full").output
    assert "--> n.ipynb:cell 2:2:1" in output
    assert "   2 | jax.pmap(f)" in output


def test_nothing_is_wider_than_80_columns(project: Path) -> None:
    (project / "wide.py").write_text("import jax\n" + "y = [" + "1, " * 60 + "jax.pmap(f)]\n")
    output = check("wide.py", "--format", "full").output
    assert "\x1b" not in output
    lines = output.splitlines()
    assert max(map(len, lines)) <= 80
    ((source, mark),) = [(a, b) for a, b in itertools.pairwise(lines) if "^" in b]
    assert source[mark.index("^") :].startswith("jax.pmap(f)")


def test_json(project: Path) -> None:
    document = json.loads(check("--format", "json").output)
    (finding,) = document["left"]
    assert finding["code"] == "SL201"
    assert (finding["line"], finding["column"], finding["end_column"]) == (3, 8, 38)
    assert document["pmap_sites"] == 1
    (project / "train.py").write_text(BROKEN)
    (finding,) = json.loads(check("--format", "json").output)["left"]
    assert [edit["replacement"] for edit in finding["edits"]] == ["jax.tree.map"]


def test_github(project: Path) -> None:
    (line,) = check("--format", "github").output.splitlines()
    place = "file=train.py,line=3,col=8,endLine=3,endColumn=38"
    assert line.startswith(f"::notice {place},title=SL201 pmap-site::`train` is pmapped.")


@pytest.mark.parametrize("where", ["settings", "option"])
def test_what_is_excluded_is_left_out(project: Path, where: str) -> None:
    (project / "pkg").mkdir()
    (project / "pkg" / "old.py").write_text("import jax\ny = jax.tree_map(f, x)\n")
    assert "SL105" in check().output
    options = ["--exclude", "pkg/"] if where == "option" else []
    if where == "settings":
        (project / "pyproject.toml").write_text('[tool.shardlift]\nexclude = ["pkg/"]\n')
    assert "SL105" not in check(*options).output
    assert "train.py" in check(*options).output
    named = run("check", "pkg/old.py", *options)
    assert "SL105" in named.output


def test_exit_zero_is_for_findings_only(project: Path) -> None:
    assert check("--fail-on", "note").exit_code == 1
    assert check("--fail-on", "note", "--exit-zero").exit_code == 0
    (project / "half.py").write_text("import jax\njax.pmap(\n")
    assert check("--exit-zero").exit_code == 2


def test_rules_are_ignored_by_the_settings_or_the_command(project: Path) -> None:
    settings = project / "pyproject.toml"
    settings.write_text('[tool.shardlift]\nignore = ["SL201"]\n')
    assert check().exit_code == 0
    assert check("--ignore", "SL4").exit_code == 1  # the command line has the last word
    settings.write_text('[tool.shardlift]\nselect = ["SL1"]\n')
    assert [check(*more).exit_code for more in ((), ("--select", "sl2,SL3"))] == [0, 1]
    settings.write_text('[tool.shardlift.per-file-ignores]\n"train.py" = ["SL2"]\n')
    assert check().exit_code == 0


def test_the_target_is_the_newest_unless_somebody_says_another(project: Path) -> None:
    (project / "requirements.txt").write_text("numpy\njax==0.4.30\n")
    assert "Checked for JAX 0.12" in check().output
    (project / "pyproject.toml").write_text('[tool.shardlift]\ntarget-jax = "0.7.2"')
    assert json.loads(check("--format", "json").output)["target_jax"] == "0.7.2"
    assert "JAX 0.10.2" in check("--target-jax", "0.10.2").output


def test_gitignore_is_respected(project: Path) -> None:
    shutil.rmtree(project / ".git")
    children.run(["git", "init", "-q"], cwd=project, check=True)
    (project / ".gitignore").write_text("*.gen.py\n")  # more patterns in test_files.py
    (project / "c.gen.py").write_text(PMAP)
    assert [line.split(":")[0] for line in check("-q").output.splitlines()] == ["train.py"]
    assert "1 ignored by git" in check().output
    assert "left out: c.gen.py" in check("--verbose").output
    assert check("-q", "c.gen.py").exit_code == 1  # a file that is named always counts


def test_rules_are_listed() -> None:
    output = run("rule").output
    assert all(code in output for code in all_rules())
    assert max(map(len, output.splitlines())) <= 80


@pytest.mark.parametrize("code", ["SL402", "sl402"])
def test_a_rule_is_explained_with_its_examples(code: str) -> None:
    result = run("rule", code)
    rule = all_rules()["SL402"]
    assert result.exit_code == 0
    assert " ".join(rule.explain.split()) in " ".join(result.output.split())
    prose = re.sub(r"```.*?```|<http.*?>", "", result.output, flags=re.DOTALL)
    assert max(map(len, prose.splitlines())) <= 80
    assert rule.reference in result.output
    assert all(e in result.output for e in (*rule.bad, *rule.good) if isinstance(e, str))
    assert run("rule", "SL999").exit_code == 2
