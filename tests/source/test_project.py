"""Projects: whether several processes run one, and which file an import means."""

import gc
import json
import weakref

import pytest

from shardlift.check.engine import RuleSelection, check_file
from shardlift.rewrite.helpers import catalogue
from shardlift.source.processes import may_be_evidence
from shardlift.source.project import Project
from shardlift.source.settings import Settings
from shardlift.source.text import Source, read_source


def _project(*texts: str, settings: Settings = Settings()) -> Project:
    sources = [Source(f"m{number}.py", text) for number, text in enumerate(texts)]
    return Project.of(*sources, settings=settings)


@pytest.mark.parametrize(
    "text",
    [
        "import jax\njax.distributed.initialize()",
        "from jax import distributed\ndistributed.initialize()",
        "import jax\nmine = files[jax.process_index() :: jax.process_count()]",
        "import jax as j\nkey = j.random.fold_in(key, j.process_index())",
        "from jax import process_count as n\nbatch = 512 // n()",
        "import jax\nload(shard=jax.host_id())",
        "from jax.lib import xla_bridge\nn = xla_bridge.process_count()",
        "import jax\nif jax.process_count() > 1:\n    x = stitch(x)",
        "import jax as j\nif j.process_index() == 0: np.save('x', state)",
        "import jax\nif folder and not jax.host_id():\n    checkpoints.save_checkpoint(folder)",
        "from jax.experimental import multihost_utils as m\nm.process_allgather(x)",
        "import jax, tensorflow_datasets as tfds\nsplit = tfds.split_for_jax_process('train')",
        "import jax, train_utils\ntrain_utils.barrier_across_hosts()",
        "import jax\nif not jax.process_index(): wandb.init()",
        "import jax\nlead = jax.process_index() == 0\nif lead and step:\n    save(state)",
        "import jax\nlead = jax.host_id() == 0\ndef f():\n    if lead:\n        save(state)",
        "import jax\nhosts = jax.device_count() // jax.local_device_count()",
        "import jax\nn = jax.device_count() / len(jax.local_devices())",
        "import jax; n, k = 1, 2; every = jax.device_count(); own = len(jax.local_devices())\n"
        "b = n // (every // own)",
        "import jax; n = jax.device_count(); k = jax.local_device_count()\n"
        "if jax.process_index() == 0: print(n, k)",
        "import jax\ndims = batch_dims(64, jax.device_count(), jax.local_device_count())",
        "import jax\nassert batch % jax.process_count() == 0",
        "import jax\nif batch % jax.process_count():\n    raise ValueError",
    ],
)
def test_a_program_of_many_processes(text: str) -> None:
    project = _project("import m1", text)
    assert project.file("m1.py").many_processes
    assert project.file("m0.py").many_processes
    evidence = project.process_evidence("m0.py")
    assert evidence is not None
    assert (evidence.path, evidence.line) == ("m1.py", 2)


@pytest.mark.parametrize(
    "text",
    [
        "import jax\n# jax.process_index()",
        "import jax\nx = 'distributed.initialize()'",
        "import jax, torch\ntorch.distributed.initialize()",
        "def process_index(): pass\nimport jax\nprocess_index()",
        "import jax\nf = jax.process_index",
        "import jax.process_index (",
        # What is right in one process, too.
        "import jax as j\nif j.process_index() == 0: print()",
        "import jax\nif not jax.process_index(): writer.write_scalars(opened)",
        "import jax\nis_main = jax.process_index() == 0\nif is_main:\n    print()",
        "import jax\nlead = jax.process_index() == 0\nlead = folder\nif lead:\n    save(state)",
        "import jax\nprint(jax.device_count(), jax.local_device_count())",
        "import jax\nn = batch // jax.device_count()\nk = n // jax.local_device_count()",
        "import jax\nif jax.process_index() == 0: print(jax.local_device_count())",
        "import jax\nif jax.process_index() == 0: print(jax.device_count())",
        "import jax\nif verbose and jax.host_id() == 0: log()",
        "from jax import process_count as n\nprint(n())",
        "import jax\nlogging.info('%d of %d', jax.process_index(), jax.process_count())",
        "import jax\nprint(f'process {jax.process_index()}')",
        "import jax\nx = 1 if jax.process_index() == 0 else 2",
        "import jax\nunit().set_task_status(f'{jax.process_index()} of {jax.process_count()}')",
        # What decides for one.
        "import jax\nassert jax.process_count() == 1\njax.distributed.initialize()",
        "import jax\nif jax.process_count() > 1:\n    raise NotImplementedError",
    ],
)
def test_a_program_of_one_process(text: str) -> None:
    project = _project("import m1", text)
    assert not project.has_many_processes("m0.py")
    assert not project.has_many_processes("m1.py")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# jax: software distributed under the License is distributed on an\ninitialize()", False),
        ("from jax.distributed import initialize", True),
        ("distributed.initialize()", False),  # there is no JAX
        ("import jax\njax.host_count()", True),
    ],
)
def test_what_is_worth_parsing_for_evidence(text: str, expected: bool) -> None:
    assert may_be_evidence(text) is expected


def test_what_shows_many_processes_counts_for_its_package() -> None:
    """One of its modules may get the others by their names; a script elsewhere is another one."""
    many, plain = "import jax\njax.distributed.initialize()", "import jax"
    texts = {
        "lib/__init__.py": "",
        "lib/run.py": many,
        "lib/plugins/__init__.py": "",
        "lib/plugins/one.py": plain,
        "lib/plugins/two.py": "import jax\nassert jax.process_count() == 1",
        "scripts/other.py": plain,
        "scripts/shared.py": "import lib.run",
    }
    project = Project.of(*(Source(path, text) for path, text in texts.items()))
    shown = {path for path in texts if project.has_many_processes(path)}
    assert shown == texts.keys() - {"lib/plugins/two.py", "scripts/other.py"}


def test_a_notebook_is_one_process_unless_it_joins_a_job() -> None:
    library = Source("lib.py", "import jax\njax.distributed.initialize()")
    book = json.dumps(
        {"cells": [{"cell_type": "code", "source": "import jax, lib\nx = jax.process_count()"}]}
    )
    joins = book.replace("process_count", "distributed.initialize")
    books = [read_source(f"{k}.ipynb", text.encode()) for k, text in enumerate((book, joins))]
    project = Project.of(library, *books)
    assert [project.has_many_processes(f"{k}.ipynb") for k in range(2)] == [False, True]
    assert project.has_many_processes("lib.py")


def test_the_settings_have_the_last_word() -> None:
    text = "import jax\njax.distributed.initialize()"
    alone, many = Settings(many_processes=False), Settings(many_processes=True)
    assert not _project(text, settings=alone).has_many_processes("m0.py")
    assert _project("x = 1", settings=many).has_many_processes("m0.py")


def test_helpers_that_migrate_wrote_do_not_count() -> None:
    helpers = catalogue().values()
    asking = [helper for helper in helpers if may_be_evidence(f"jax {helper.source}")]
    assert asking
    for helper in asking:
        project = _project(f"import jax\n{helper.source}")
        assert project.process_evidence("m0.py") is None, helper.name


@pytest.mark.parametrize(
    ("user", "far", "sites"), [("a/use.py", "1", 1), ("c/use.py", "jax.pmap", 0)]
)
def test_an_import_means_the_nearest_file_if_there_is_one(user: str, far: str, sites: int) -> None:
    near, other = Source("a/lib.py", "import jax\npmap = jax.pmap"), f"import jax\npmap = {far}"
    use = Source(user, "from lib import pmap\nf = pmap(g)")
    assert len(Project.of(near, Source("b/lib.py", other), use).file(user).sites) == sites


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


def test_what_was_checked_is_freed_without_the_garbage_collector() -> None:
    text = "import jax\nx = 1\nx = jax.pmap(f)\ny = x(x)[0]\n"
    project = _project(text)
    gc.disable()
    try:
        assert check_file(project, "m0.py", text.encode(), RuleSelection()).findings
        again = project.fresh()
        index = weakref.ref(again.file("m0.py").index)
        again.close()
        assert index() is not None
        project.trim(most=1)
        assert index() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("parts", "near", "found"),
    [
        (("lib",), "use.py", True),
        (("pkg", "lib"), "use.py", True),
        (("pkg",), "use.py", True),  # by its __init__.py
        (("other", "lib"), "use.py", False),
        (("jax",), "use.py", False),  # a library, even if there is a file of that name
        ((), "use.py", False),
        (("note",), "use.py", False),
    ],
)
def test_modules(parts: tuple[str, ...], near: str, found: bool) -> None:
    paths = ["pkg/__init__.py", "pkg/lib.py", "jax.py", "note.ipynb", "use.py"]
    project = Project.of(*(Source(path, "x = 1") for path in paths))
    assert project.has_module(parts, near) is found
    assert (project.module(parts, near) is not None) is found


@pytest.mark.parametrize(
    ("lib", "values"),
    [
        ("import jax\nname = jax.pmap", 1),
        ("from other import (\n    name,\n)", 1),
        ("name = 1", 1),
        ("x = 1", 0),
    ],
)
def test_the_names_of_a_module(lib: str, values: int) -> None:
    other = Source("other.py", "import jax\nname = jax.pmap")
    project = Project.of(Source("lib.py", lib), other, Source("use.py", ""))
    assert len(project.exported(("lib",), "name", "use.py")) == values
    assert project.exported(("lib",), "name", "lib.py") == ()
    assert project.exported(("missing",), "name", "use.py") == ()


def test_files_that_cannot_be_read_export_nothing() -> None:
    def read(path: str) -> Source:
        raise OSError(path)

    project = Project(["lib.py"], read)
    assert project.exported(("lib",), "name", "use.py") == ()
    assert not project.has_many_processes("lib.py")
