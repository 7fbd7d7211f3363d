"""What `check` marks is what the commands write."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from shardlift.check.engine import RuleSelection
from shardlift.check.rules import all_rules
from shardlift.cli.check_files import check_files
from shardlift.rewrite.changes import Change
from shardlift.rewrite.engine import migrate
from shardlift.rewrite.goal import Goal
from shardlift.rewrite.results import Migration
from shardlift.source.model import Example, Finding, Kind, Rewriter
from shardlift.source.settings import Settings
from shardlift.source.target import NEWEST, NEWEST_FLAX
from tests.rewrite.programs import PROGRAMS

ROOT = Path(__file__).parents[2]
Texts = Mapping[str, str]


def _findings(texts: Texts, settings: Settings) -> list[Finding]:
    for path, text in texts.items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(text.encode())
    reports = check_files([*texts], RuleSelection(), settings)
    return [finding for report in reports for finding in report.findings]


def _rewrite(texts: Texts, goal: Goal, settings: Settings) -> Migration:
    return migrate(
        list(texts),
        lambda path: texts[path].encode(),
        lambda path: path in texts,
        goal,
        settings=settings,
    )


def _after(texts: Texts, done: Migration, settings: Settings) -> list[Finding]:
    return _findings({**texts, **{file.path: file.after for file in done.changed}}, settings)


def _is_marked(change: Change, findings: list[Finding]) -> bool:
    """Whether a finding with the mark [fix] is where a change is, or calls what it changes."""
    return any(
        finding.rewriter is Rewriter.FIX
        and (
            (finding.code, change.kind) in (("SL402", Kind.READ), ("SL302", Kind.PLACEMENT))
            or (
                change.id.path == finding.path
                and change.touches(finding.span.line, finding.span.end_line)
            )
        )
        for finding in findings
    )


def _examples() -> dict[str, tuple[Texts, Settings]]:
    """Every bad example of a rule, every program, and the programs of examples/."""
    cases: dict[str, tuple[Texts, Settings]] = {}
    for rule in all_rules().values():
        settings = Settings(*(rule.holds_for or (NEWEST, NEWEST_FLAX)))
        for number, example in enumerate(rule.bad):
            cases[f"{rule.code}-{number}"] = _texts(example), settings
    cases |= {name: (texts, Settings()) for name, texts in PROGRAMS.items()}
    lazy = (
        "def f(x):\n    import jax\n    return jax.device_put_replicated(jax.tree_map(abs, x), d)"
    )
    cases["JAX is imported in a function"] = {"example.py": lazy}, Settings()
    for folder in sorted((ROOT / "examples").iterdir()):
        paths = [path for ending in ("py", "ipynb") for path in folder.rglob(f"*.{ending}")]
        texts = {str(path.relative_to(ROOT)): path.read_text() for path in sorted(paths)}
        if texts:
            cases[f"examples/{folder.name}"] = texts, Settings()
    return cases


def _texts(example: Example) -> Texts:
    return {"example.py": example} if isinstance(example, str) else example


CASES = _examples()


@pytest.mark.parametrize("name", CASES)
def test_what_is_marked_is_what_the_command_writes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    texts, settings = CASES[name]
    before = _findings(texts, settings)
    done = _rewrite(texts, Goal.FIX, settings)
    changes = [change for file in done.files for change in file.rewritten]
    assert [change for change in changes if not _is_marked(change, before)] == []
    after = _after(texts, done, settings)
    assert [f for f in after if f.rewriter is Rewriter.FIX] == []
    # And what `fix` does not do is still there. The function of a barrier goes with it.
    gone = {"SL001", "SL201"} if any(f.code == "SL602" for f in before) else {"SL001"}
    kept = Counter(f.code for f in before if f.rewriter is not Rewriter.FIX and f.code not in gone)
    assert kept - Counter(f.code for f in after) == Counter()
    after = _after(texts, _rewrite(texts, Goal.SHARD_MAP, settings), settings)
    assert [f for f in after if f.rewriter is not Rewriter.HAND] == []
