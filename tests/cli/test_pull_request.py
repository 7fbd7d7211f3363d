"""`shardlift migrate --write --pr FILE`: what a maintainer reads first."""

import re
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from shardlift.cli.formats.migration import RewriteReport
from shardlift.cli.formats.pull_request import markdown
from shardlift.cli.verified_migration import PlaceResult, VerifiedMigration
from shardlift.rewrite.changes import ChangeId
from shardlift.rewrite.engine import migrate
from shardlift.source.model import Kind
from tests.cli.commands import run

pytestmark = pytest.mark.usefixtures("many_sites")

TRAIN = """\
import jax

# The pmap of the step.
step = jax.pmap(lambda x: x + 1)
other = jax.pmap(lambda x: x + 1, in_axes=-1)
old = jax.tree_map(abs, [1])
rows = jax.device_put_replicated(1, jax.devices())
more = jax.pmap(lambda x: x - 1)
"""
METADATA = '[project]\nname = "pkg"\ndependencies = ["jax>=0.4"]\n'
FILES = {"pkg/__init__.py": "", "pkg/train.py": TRAIN, "pyproject.toml": METADATA}


def _sections(text: str) -> dict[str, str]:
    parts = re.split(r"^## (.*)\n", text, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_the_description_has_every_fact(project: Path) -> None:
    result = run("migrate", "--write", "--pr", "pr.md")
    assert result.exit_code == 1  # something was refused
    assert len(result.stdout.splitlines()) <= 10
    text = (project / "pr.md").read_text()
    assert text.startswith("# Replace `jax.pmap` by")
    sections = _sections(text)
    size = len((project / "pkg/_spmd.py").read_text().splitlines())
    said = {
        "What changes": [
            "4 places were rewritten in 1 file, 1 left as it is.",
            "Of these: 2 mapped, 1 to place arrays, 1 with an old name.",
            f"New: `pkg/_spmd.py` ({size} lines).",
            "Written for one process: no line joins a job",
        ],
        "What it needs": [
            "JAX 0.7 or newer",
            "\n  - `pyproject.toml:3`: `jax>=0.4` -> `jax>=0.7`\n",
        ],
        "What stays as it is": [
            "- `pkg/train.py:5:9`: left as it is: its in\\_axes count from the end",
            "- Comments or strings still speak of pmap in 1 line: `pkg/train.py:5`",
        ],
        "What was verified": ["Nothing was run"],
        "What to do next": ["documents for `pmap`: a mock of it"],
    }
    for name, sentences in said.items():
        assert [one for one in sentences if one not in sections[name]] == []


@pytest.mark.parametrize(
    ("arguments", "title"),
    [
        (("migrate", "--to", "shim"), "Replace `jax.pmap` by `shardlift.pmap`"),
        (("migrate",), "Replace `jax.pmap` by `jax.jit(jax.shard_map(...))`"),
        (("migrate", "other.py"), "Repair what today's JAX removed or made slow"),
        (("migrate", "new.py"), "Nothing to change"),
        (("fix",), "Repair what today's JAX removed or made slow"),
    ],
)
def test_the_title_and_the_commands_are_true(
    project: Path, arguments: tuple[str, ...], title: str
) -> None:
    (project / "pkg/train.py").write_text(f"{TRAIN}print(float(step(old)[0]))\n")
    (project / "other.py").write_text("import jax\nx = jax.tree_map(abs, [1])\n")
    (project / "new.py").write_text("x = 1\n")
    run(*arguments, "--write", "--pr", "pr.md")
    text = (project / "pr.md").read_text()
    assert text.startswith(f"# {title}\n")
    assert f"shardlift {arguments[0]} --write --verify COMMAND` runs a program" in text
    slow = arguments == ("fix",) or title.startswith("Replace")
    assert ("on all devices, and time a step before and after." in text) is slow


def test_what_only_tests_need(project: Path) -> None:
    (project / "pkg/train_test.py").write_text(TRAIN)
    run("migrate", "pkg/train_test.py", "--write", "--pr", "pr.md")
    needs = _sections((project / "pr.md").read_text())["What it needs"]
    assert "text of tests, examples, notebooks and scripts needs JAX 0.7 or newer" in needs
    assert "jax>=" not in needs


def test_it_needs_write(project: Path) -> None:
    result = run("migrate", "--pr", "pr.md")
    assert result.exit_code == 2
    assert "--write" in result.stderr
    assert not (project / "pr.md").exists()
    result = run("migrate", "--write", "--pr", "nowhere/pr.md")
    assert result.exit_code == 2
    assert "nowhere/pr.md" in result.stderr
    assert "spmd_map" in (project / "pkg/train.py").read_text()


def test_what_a_command_showed() -> None:
    texts = {"m.py": TRAIN}
    migration = migrate(["m.py"], lambda path: texts[path].encode(), lambda path: False)
    where = ChangeId("m.py", 4, 7, Kind.SITE)
    verified = VerifiedMigration(
        migration,
        (PlaceResult(where, "verified", ""), PlaceResult(where, "not reached", "no call")),
        1,
    )
    text = markdown(RewriteReport(migration, verified=verified, command="python m.py"))
    shown = _sections(text)["What was verified"]
    assert "`python m.py`: 1 verified, 1 not reached, after 1 run." in shown
    assert "- `m.py:4:8`: not reached: no call" in shown


NASTY = "` ![x](http://e/x.png) <img src=x> @all `` ![x](y) <b> @all | [l](javascript:x) #1"


def test_nothing_that_the_repository_says_is_markup(project: Path) -> None:
    name = "pkg/`<b>@all.py"
    (project / name).write_text(f'{TRAIN}# pmap {NASTY}\ndef f():\n    """pmap {NASTY}"""\n')
    (project / "pkg/`<i>@all.py").write_text("jax.pmap(")
    (project / "README.md").write_text(f"pmap {NASTY}\n")
    (project / "pyproject.toml").unlink()
    (project / "requirements.txt").write_text(f"jax>=0.4  # {NASTY}\n")
    assert run("migrate", "--write", "--pr", "pr.md", "--verbose").exit_code == 2
    blocks = MarkdownIt("commonmark").parse((project / "pr.md").read_text())
    tokens = [token for block in blocks for token in (block, *(block.children or ()))]
    assert {token.type for token in tokens} & {
        "image",
        "link_open",
        "html_inline",
        "html_block",
    } == set()
    assert sum("@all" in token.content for token in tokens if token.type == "code_inline") > 2
    assert not [token for token in tokens if token.type == "text" and "@all" in token.content]
