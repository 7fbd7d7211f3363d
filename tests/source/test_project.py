"""Projects: whether several processes run one, and which file an import means."""

from __future__ import annotations

import pytest

from shardlift.migrate.helpers import catalogue
from shardlift.source.processes import WRITTEN_BY_MIGRATE, may_be_for_many
from shardlift.source.project import Project
from shardlift.source.settings import Settings
from shardlift.source.text import Source


def _project(*texts: str, settings: Settings = Settings()) -> Project:
    sources = [Source(f"m{number}.py", text) for number, text in enumerate(texts)]
    return Project.of(*sources, settings=settings)


@pytest.mark.parametrize(
    "text",
    [
        "import jax\njax.distributed.initialize()",
        "from jax import distributed\ndistributed.initialize()",
        "import jax as j\nif j.process_index() == 0: pass",
        "from jax import process_count as n\nprint(n())",
        "import jax\nprint(jax.host_id())",
        "from jax.lib import xla_bridge\nn = xla_bridge.process_count()",
    ],
)
def test_a_file_that_asks_for_processes(text: str) -> None:
    assert _project("x = 1", text).many_processes
    assert _project("x = 1", text).file("m0.py").many_processes


@pytest.mark.parametrize(
    "text",
    [
        "import jax\n# jax.process_index()",
        "import jax\nx = 'distributed.initialize()'",
        "import jax, torch\ntorch.distributed.initialize()",
        "def process_index(): pass\nimport jax\nprocess_index()",
        "import jax\nf = jax.process_index",
        "import jax.process_index (",
    ],
)
def test_a_file_that_does_not(text: str) -> None:
    assert not _project("import jax", text).many_processes


def test_the_settings_have_the_last_word() -> None:
    text = "import jax\njax.distributed.initialize()"
    assert not _project(text, settings=Settings(many_processes=False)).many_processes
    assert _project("x = 1", settings=Settings(many_processes=True)).many_processes


def test_helpers_that_migrate_wrote_do_not_count() -> None:
    helpers = catalogue().values()
    asking = [helper for helper in helpers if may_be_for_many(f"jax {helper.source}")]
    assert {helper.name for helper in asking} >= WRITTEN_BY_MIGRATE
    for helper in asking:
        assert not _project(f"import jax\n{helper.source}").many_processes, helper.name


def test_an_import_means_the_nearest_file() -> None:
    near = Source("a/lib.py", "import jax\npmap = jax.pmap")
    far = Source("b/lib.py", "pmap = 1")
    use = Source("a/use.py", "from lib import pmap\nf = pmap(g)")
    assert len(Project.of(near, far, use).file("a/use.py").sites) == 1


def test_two_files_that_fit_equally_well_are_left_alone() -> None:
    first = Source("a/lib.py", "import jax\npmap = jax.pmap")
    second = Source("b/lib.py", "import jax\npmap = jax.pmap")
    use = Source("c/use.py", "from lib import pmap\nf = pmap(g)")
    assert Project.of(first, second, use).file("c/use.py").sites == []


def test_a_file_that_cannot_be_read_is_no_module() -> None:
    project = Project.of(Source("lib.py", "import jax\npmap = jax.pmap ("), Source("use.py", ""))
    assert project.has_module(("lib",), "use.py")
    assert project.module(("lib",), "use.py") is None


def test_trimming_drops_what_was_parsed() -> None:
    project = _project("x = 1")
    before = project.file("m0.py")
    assert not project.trim()
    assert project.trim(most=1)
    assert project.file("m0.py") is not before
