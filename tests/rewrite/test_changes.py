"""Changes: each has an identity, and any choice of them can be rendered."""

from collections.abc import Iterable, Sequence

import pytest

from shardlift.facts import Capture
from shardlift.rewrite import engine
from shardlift.rewrite.changes import Change, ChangeId, Decisions
from shardlift.rewrite.device_axis import rewrites
from shardlift.rewrite.device_axis.followed_program import FollowedProgram
from shardlift.rewrite.engine import ProjectMigration
from shardlift.rewrite.goal import Goal
from shardlift.rewrite.results import Migration
from shardlift.source.file import File
from shardlift.source.model import Kind
from tests.rewrite.captures import all_proven, dated
from tests.rewrite.test_programs import PLACED

pytestmark = pytest.mark.usefixtures("many_sites")

FIRST = """\
import jax

step = jax.pmap(f)
loss = float(jax.pmap(lambda x: x + 1)(x)[0])
"""
TRAINING = """\
import jax
from flax import jax_utils
from flax.training import common_utils


def step(state, batch):
    return jax.lax.pmean(state + batch.sum(), "i")


def evaluate(state, batch):
    return jax.lax.pmean((state * batch.sum()), "i")


p_step = jax.pmap(step, axis_name="i")
p_eval = jax.pmap(evaluate, axis_name="i")
state = jax_utils.replicate(1.0)
for batch in loader:
    state = p_step(state, common_utils.shard(batch))
    print(jax_utils.unreplicate(p_eval(state, common_utils.shard(batch))))
"""
SECOND = "import jax\n\nother = jax.pmap(h)\ny = jax.tree_map(f, tree)\n"


def _project(goal: Goal = Goal.SHARD_MAP, **texts: str) -> ProjectMigration:
    files = {f"{name}.py": text for name, text in texts.items()}
    read, facts = lambda path: files[path].encode(), dated(all_proven(files), files)
    return ProjectMigration(list(files), read, lambda _: False, goal, facts)


def _texts(migration: Migration) -> dict[str, str]:
    return {file.path: file.after for file in migration.files}


def _change(migration: Migration, line: int, kind: Kind) -> Change:
    changes = [change for file in migration.files for change in file.rewritten]
    (change,) = (one for one in changes if (one.span.line, one.kind) == (line, kind))
    return change


def test_the_identity_is_what_it_does_and_where_it_begins() -> None:
    migration = _project(first=FIRST).render()
    assert _change(migration, 3, Kind.SITE).id == ChangeId("first.py", 3, 7, Kind.SITE)
    # The read is around the site and begins with it: it is another change.
    assert _change(migration, 4, Kind.READ).id == ChangeId("first.py", 4, 13, Kind.READ)
    assert _change(migration, 4, Kind.SITE).id == ChangeId("first.py", 4, 13, Kind.SITE)


@pytest.mark.parametrize("goal", [Goal.SHARD_MAP, Goal.GLOBAL])
def test_one_that_is_left_is_left_alone(goal: Goal) -> None:
    project = _project(goal, first=FIRST)
    whole = project.render()
    change = _change(whole, 3, Kind.SITE)
    part = project.render(Decisions({change.id: "not now"}))
    assert "step = jax.pmap(f)\n" in _texts(part)["first.py"]
    assert "jax.pmap(lambda" not in _texts(part)["first.py"]
    refused = [one for file in part.files for one in file.refused if one.id == change.id]
    assert "not now" in {one.reason for one in refused}
    assert _texts(project.render()) == _texts(whole)


def test_one_inside_of_another_is_left_by_its_own_identity() -> None:
    project = _project(first=FIRST)
    whole = project.render()
    read, site = (_change(whole, 4, kind) for kind in (Kind.READ, Kind.SITE))
    assert (
        "float(jax.device_get(jax.pmap(lambda x: x + 1)(x))[0])"
        in _texts(project.render(Decisions({site.id: ""})))["first.py"]
    )
    assert (
        "spmd_map(lambda x: x + 1)(x)[0]"
        in _texts(project.render(Decisions({read.id: ""})))["first.py"]
    )


def test_only_those_on_some_lines() -> None:
    project = _project(first=FIRST)
    part = _texts(project.render(Decisions(lines=(4, 4))))["first.py"]
    left = _change(project.render(), 3, Kind.SITE).id
    assert "step = jax.pmap(f)\n" in part
    assert part == _texts(project.render(Decisions({left: ""})))["first.py"]


def test_a_file_whose_choice_is_the_same_is_not_rewritten_again(monkeypatch) -> None:
    rendered: list[str] = []
    real = engine.render

    def counted(file, *rest):
        rendered.append(file.path)
        real(file, *rest)

    monkeypatch.setattr(engine, "render", counted)
    project = _project(first=FIRST, second=SECOND)
    whole = project.render()
    assert sorted(rendered) == ["first.py", "second.py"]
    change = next(c for file in whole.files for c in file.rewritten if c.id.path == "second.py")
    project.render(Decisions({change.id: "no"}))
    project.render(Decisions({change.id: "no"}))
    project.render()
    assert sorted(rendered) == ["first.py", "second.py", "second.py"]


def test_values_are_followed_once_for_all_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    analysed: list[int] = []
    real = rewrites.analyse

    def counted(files: Iterable[File], facts: Sequence[Capture]) -> FollowedProgram:
        analysed.append(1)
        return real(files, facts)

    monkeypatch.setattr(rewrites, "analyse", counted)
    project = _project(Goal.GLOBAL, first=TRAINING)
    whole = project.render()
    assert "in_specs=(jax.P(), jax.P(" in _texts(whole)["first.py"]
    line = TRAINING[: TRAINING.index("p_eval =")].count("\n") + 1
    site = _change(whole, line, Kind.SITE)
    # Another site takes the same state: it goes back with the one that is left.
    part = project.render(Decisions({site.id: "not now"}))
    assert not PLACED.search(_texts(part)["first.py"])
    assert "jax.pmap(evaluate" in _texts(part)["first.py"]
    assert _texts(project.render()) == _texts(whole)
    assert analysed == [1]


def test_an_import_of_the_shim_covers_what_is_mapped_through_it() -> None:
    text = "from jax import pmap\n\n\nstep = pmap(f)\n\n\n@pmap\ndef g(x): ...\n"
    (file,) = _project(Goal.SHIM, first=text).render().files
    (change,) = file.rewritten
    assert (change.kind, change.sites) == (Kind.SITE, ((1, 1), (4, 4), (7, 7)))
