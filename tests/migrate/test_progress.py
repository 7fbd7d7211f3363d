"""Which places count as migrated."""

from __future__ import annotations

import pytest

from shardlift.migrate.engine import migrate
from shardlift.migrate.goal import Goal
from shardlift.migrate.progress import migrated_sites, shim_sites
from shardlift.source.file import File
from shardlift.source.project import Project
from shardlift.source.text import Source

PROGRAM = """\
import functools
import jax

@functools.partial(jax.pmap, axis_name="i")
def step(x):
    return jax.lax.psum(x, "i")

evaluate = jax.pmap(lambda x: x)
"""


def _files(texts: dict[str, str]) -> list[File]:
    project = Project.of(*(Source(path, text) for path, text in texts.items()))
    return [project.file(path) for path in texts]


def _migrated(texts: dict[str, str], goal: Goal) -> list[File]:
    contents = {path: text.encode() for path, text in texts.items()}
    result = migrate(list(texts), contents.__getitem__, contents.__contains__, goal)
    return _files(texts | {file.path: file.after for file in result.changed})


@pytest.mark.parametrize("goal", [Goal.SHARD_MAP, Goal.GLOBAL])
@pytest.mark.parametrize("name", ["train.py", "pkg/train.py"])  # helpers in the file, or beside it
def test_every_rewritten_site_counts_and_no_helper_does(goal: Goal, name: str) -> None:
    texts = {name: PROGRAM} | ({"pkg/__init__.py": ""} if "/" in name else {})
    sites = [site for file in _migrated(texts, goal) for site in migrated_sites(file)]
    assert len(sites) == 2


def test_pmap_does_not_count() -> None:
    (file,) = _files({"train.py": PROGRAM})
    assert migrated_sites(file) == []


@pytest.mark.parametrize(
    "text",
    [
        "def spmd_map(f): return f\nstep = spmd_map(lambda x: x)\n",  # somebody else's
        "from elsewhere import spmd_map\nstep = spmd_map(lambda x: x)\n",
        "from pkg._spmd import spmd_map\n",  # imported only
    ],
)
def test_a_name_alone_does_not_count(text: str) -> None:
    (file,) = _files({"train.py": text})
    assert migrated_sites(file) == []


def test_the_shim_is_counted_apart() -> None:
    (file,) = _migrated({"train.py": PROGRAM}, Goal.SHIM)
    assert len(shim_sites(file)) == 2
    assert migrated_sites(file) == []
