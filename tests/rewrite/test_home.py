"""Where helpers live: at the top of a package, beside scripts, or in the file.

The imports that are written are also carried out, in one process per layout.
"""

import json
import os
import sys
from pathlib import Path, PurePath

import pytest

from shardlift.rewrite.engine import migrate
from shardlift.rewrite.home import find_homes
from shardlift.rewrite.layout import Layout
from shardlift.source.project import Project
from shardlift.source.text import Source
from tests import children
from tests.notebooks import notebook, sources
from tests.rewrite.test_programs import migrated

Files = dict[str, str]

pytestmark = pytest.mark.usefixtures("many_sites")


def homes(files: Files, *users: str) -> dict[str, tuple[str | None, str]]:
    """The path and the module of the home of each user."""
    texts = {f"/r/{path}": text for path, text in files.items()}
    folders = {str(above) for path in texts for above in Path(path).parents}
    project = Project.of(*(Source(path, text) for path, text in texts.items()))
    layout = Layout(project, (texts.keys() | folders).__contains__)
    helpers = {f"/r/{path}": {"replicate"} for path in users}
    found = find_homes(helpers, layout, lambda path: path in texts)
    return {
        path.removeprefix("/r/"): (home.path and home.path.removeprefix("/r/"), home.module)
        for path, home in found.items()
    }


INSIDE = (None, "")
SITE = "import jax\n\nmapped = jax.pmap(lambda x: x + 1)\n"


def of(listed: str) -> Files:
    """Files by their paths, each with the text after its colon."""
    pairs = (one.partition(":") for one in listed.split(" | "))
    return {path: text.strip().replace("; ", "\n") for path, _, text in pairs}


TWO_PACKAGES = "a/__init__.py | *a/m.py: from b import n | b/__init__.py | *b/n.py: from a import m"
AGENTS = "pkg/m.py | *agents/a.py: from pkg.m import n | *agents/b.py: import pkg.m"
LEVELS = "pkg/__init__.py | pkg/n.py | pkg/a/__init__.py | *pkg/a/m.py: from . import b"
KEEPS = "pkg/__init__.py | *pkg/a.py: {0} | *pkg/b.py: {0} | pkg/c.py"
SRC = "src/__init__.py | src/pkg/__init__.py | *src/pkg/m.py"


@pytest.mark.parametrize(
    ("files", "home"),  # the files that need helpers have a star; nothing: they are in them
    [
        ("*alone.py: import jax", ""),
        ("*n.ipynb: import jax", ""),
        ("my-repo/__init__.py | *my-repo/m.py", ""),
        # A library that has the name of a folder above leads nowhere in it.
        ("*top/lib/m.py: from lib import agent | top/n.py", ""),
        ("*scripts/m.py: import pkg | pkg/__init__.py", ""),
        ("*m.py: from lib import n | lib/n.py", ""),
        # A script that is not alone: beside what it imports, or what imports it.
        ("*m.py: import n | n.py", "_spmd.py _spmd"),
        ("*src/m.py | src/main.py: import m", "src/_spmd.py _spmd"),
        # What a docstring shows defines nothing.
        ('*m.py: from lib import n | lib/__init__.py: """; def n(): pass; """', ""),
        # What one test needs is in the test.
        ("*tests/test_m.py: import pkg | pkg/__init__.py", ""),
        ("pkg/__init__.py | *pkg/m_test.py", ""),
        ("pkg/__init__.py | *pkg/m.py", "pkg/_spmd.py pkg._spmd"),
        ("pkg/__init__.py | pkg/a/__init__.py | *pkg/a/m.py", "pkg/_spmd.py pkg._spmd"),
        # Only its neighbours are imported relatively.
        (LEVELS, "pkg/_spmd.py .._spmd"),
        (f"{LEVELS}; from . import c; from pkg.n import d", "pkg/_spmd.py pkg._spmd"),
        (f"{LEVELS}; from ..o import c; from pkg.n import d", "pkg/_spmd.py .._spmd"),
        # No __init__.py: the file says where it is.
        ("*top/sub/m.py: from top.sub import n | top/sub/n.py", "top/_spmd.py top._spmd"),
        # A package with a gap, imported from the folder in between.
        (
            "pkg/__init__.py | pkg/sub/deep/__init__.py | *pkg/sub/deep/m.py | "
            "pkg/sub/run.py: from deep import m",
            "pkg/sub/deep/_spmd.py deep._spmd",
        ),
        # A library with a module of that name is not this folder.
        ("mine/metrics.py | *mine/m.py: from clu.metrics import Metric", ""),
        # src/ has an __init__.py, and is not what is imported; or it is.
        (SRC, "src/pkg/_spmd.py pkg._spmd"),
        (f"{SRC} | main.py: from src.pkg import m", "src/_spmd.py src._spmd"),
        # A module of a package that has the name of the package.
        (
            "pkg/__init__.py | pkg/n.py | pkg/data/__init__.py | pkg/data/pkg.py | "
            "*pkg/data/m.py: from pkg import n",
            "pkg/_spmd.py pkg._spmd",
        ),
        # A module without imports, which another file imports through its folder.
        ("*lib/m.py | main.py: from lib.m import f", "lib/_spmd.py lib._spmd"),
        ("*m.py: import jax | _spmd.py", "_spmd.py _spmd"),  # it is there already
        # Several files.
        ("*s/a.py: import jax | *s/b.py: import jax", "s/_spmd.py _spmd"),
        ("*a/x.py: import jax | *b/y.py: import jax", ""),
        # The module for such things, which all import; of two kinds, the one that says more.
        (
            f"{KEEPS.format('from pkg.o.dist_util import f')} | pkg/o/dist_util.py",
            "pkg/o/dist_util.py pkg.o.dist_util",
        ),
        (
            f"{KEEPS.format('from .utils import f; from .jax_utils import g')} | pkg/utils.py"
            " | pkg/jax_utils.py",
            "pkg/jax_utils.py .jax_utils",
        ),
        # There are two; it has the name, is a program, imports a file that needs helpers.
        (
            f"{KEEPS.format('from .dist_util import f; from .jax_utils import g')}"
            " | pkg/dist_util.py | pkg/jax_utils.py",
            "pkg/_spmd.py ._spmd",
        ),
        *(
            (f"{KEEPS.format('from .jax_utils import f')} | pkg/jax_utils.py: {text}", home)
            for text, home in (
                ("def replicate(): ...", "pkg/_spmd.py ._spmd"),
                ("main()", "pkg/_spmd.py ._spmd"),
                ("from . import a", "pkg/_spmd.py ._spmd"),
                ("from . import c", "pkg/jax_utils.py .jax_utils"),
            )
        ),
        # It is elsewhere, or about something else.
        (
            f"{KEEPS.format('from lib.utils import f; from . import c')} | lib/utils.py",
            "pkg/_spmd.py ._spmd",
        ),
        (f"{KEEPS.format('from .nets import f')} | pkg/nets.py", "pkg/_spmd.py ._spmd"),
        # Scripts share the helpers of the package that they import, if it needs some and is here.
        (
            "*train.py: from models import net | *models/net.py | *ex/run.py: import models.net",
            "models/_spmd.py models._spmd",
        ),
        (
            "src/pkg/__init__.py | src/pkg/m.py | *a/x.py: from pkg import m | "
            "*b/y.py: from pkg import m",
            "",
        ),
        (f"{TWO_PACKAGES} | *b/o.py", "b/_spmd.py b._spmd"),
        # The package around scripts, which find what is beside it.
        (
            "e/__init__.py | *e/a/m.py: import n.f | *e/b/m.py: import n.f | n/f.py",
            "e/_spmd.py e._spmd",
        ),
        ("e/__init__.py | *e/a/m.py: import clu | *e/b/m.py: import clu", ""),
        # What only tests need is in their folder.
        (
            "pkg/__init__.py | pkg/b.py | pkg/tests/__init__.py | "
            "*pkg/tests/test_a.py: from pkg import b | *pkg/tests/test_b.py",
            "pkg/tests/_spmd.py pkg.tests._spmd",
        ),
        (
            "pkg/__init__.py | *pkg/m.py | *tests/test_m.py: from pkg import m",
            "pkg/_spmd.py pkg._spmd",
        ),
        ("pkg/__init__.py | *pkg/m.py | *b/n.ipynb: from pkg import *", "pkg/_spmd.py pkg._spmd"),
        # Modules outside of packages hold their own, but for programs, and what one imports.
        (AGENTS, ""),
        (f"{AGENTS}; main()", "agents/_spmd.py _spmd"),
        (f"{AGENTS}; if __name__ == '__main__': main()", "agents/_spmd.py _spmd"),
        (f"{AGENTS} | agents/c.py: import a", "agents/_spmd.py _spmd"),
    ],
)
def test_where_the_helpers_are(files: str, home: str) -> None:
    texts = of(files)
    users = [path.removeprefix("*") for path in texts if path.startswith("*")]
    texts = {path.removeprefix("*"): text for path, text in texts.items()}
    path, _, module = home.partition(" ")
    assert homes(texts, *users) == dict.fromkeys(users, (path or None, module))


def test_projects_that_do_not_import_each_other_do_not_share() -> None:
    files = of("a/__init__.py | a/m.py | b/__init__.py | b/n.py")
    assert homes(files, "a/m.py", "b/n.py") == {
        "a/m.py": ("a/_spmd.py", "a._spmd"),
        "b/n.py": ("b/_spmd.py", "b._spmd"),
    }


def test_notebooks_and_scripts_of_one_folder_do_not_share() -> None:
    files = of("a.py: import jax | b.py: import jax | n.ipynb: import a")
    assert homes(files, *files)["n.ipynb"] == INSIDE


def test_the_helpers_of_a_notebook_stand_before_the_first_cell_that_needs_one() -> None:
    above = "from functools import partial\nimport os\n\nimport jax  # é"
    book = notebook(f"{above}\npartial", "jax.tree_map(f, x)", "jax.pmap(f)(x)")
    result = migrate(["n.ipynb"], lambda path: book.encode(), lambda path: False)
    cells = sources(result.files[0].after)
    imports = above.replace("partial", "partial, wraps")
    assert cells[:2] == [f"{imports}\nimport jax.numpy as jnp\npartial", "jax.tree.map(f, x)"]
    assert cells[2].startswith("def spmd_map(fun, axis_name=")  # a notebook is not annotated
    assert cells[3:] == ["spmd_map(f)(x)"]


def test_a_notebook_imports_the_helper_of_a_package_below_its_import() -> None:
    cells = ["import jax", "import sys\nsys.path.append('..')\nfrom pkg import *", "jax.pmap(f)(x)"]
    texts = dict.fromkeys(("pkg/m.py", "pkg/o.py"), "import jax\nm = jax.pmap(f)\n")
    texts |= {"pkg/__init__.py": "", "n.ipynb": notebook(*cells)}
    cells[1:] = [f"{cells[1]}\nfrom pkg._spmd import spmd_map", "spmd_map(f)(x)"]
    assert sources(migrated(texts)[0]["n.ipynb"]) == cells


JAX = "import jax\nimport jax.numpy as jnp\n\nfrom app import a\n\n\n"


@pytest.mark.parametrize(
    ("above", "begins"),
    [
        ("", f"import functools\n\n{JAX}def spmd"),
        (
            "from functools import partial\n\n",
            f"from functools import partial, wraps\n\n{JAX}def spmd",
        ),
        (
            "from functools import cache as c\n\n",
            "import functools\nfrom functools import cache as c",
        ),
    ],
)
def test_what_helpers_in_a_file_import_is_not_among_the_modules_beside(
    above: str, begins: str
) -> None:
    text = f"{above}import jax\n\nfrom app import a\n\nf = jax.pmap(a, axis_name='i')\n"
    result = migrate(["m.py"], lambda path: text.encode(), lambda path: path.endswith("app"))
    (file,) = result.files
    assert file.after.startswith(begins)


@pytest.mark.parametrize(
    ("constants", "is_below"),
    [("N = 2\nb = str(N)\n", True), ("for N in x:\n    pass\n", False), ("b = g(a)\n", False)],
)
def test_helpers_in_a_file_are_below_its_constants(constants: str, is_below: bool) -> None:
    text = f"import jax\n{constants}\n\ndef f(x):\n    return x\n"
    site = "g = jax.pmap(abs, axis_name='i')\n"
    text = text.replace("b = g", f"{site}b = g") if "g(a)" in text else text + site
    (file,) = migrate(["m.py"], lambda path: text.encode(), lambda path: False).files
    assert (file.after.index(constants[:5]) < file.after.index("def spmd_map")) is is_below
    assert file.after.index("def spmd_map") < file.after.index("def f(x)")


def test_a_helper_that_one_file_needs_is_in_that_file() -> None:
    texts = {"p/__init__.py": "", "p/m.py": SITE}
    result = migrate(list(texts), lambda path: texts[path].encode(), texts.__contains__)
    assert "def spmd_map(" in result.changed[0].after
    assert not result.helper_modules


@pytest.mark.parametrize("module", ["p/utils/parallel.py", "p/jax_utils.py", "p/train.py"])
def test_a_helper_that_a_module_for_such_things_has_is_used(module: str) -> None:
    placed = "import jax\n\n\ndef place(x):\n    return jax.device_put_replicated(x, d)\n"
    texts, _ = migrated({"p/__init__.py": "", module: placed})
    files, _ = migrated({**texts, "p/a.py": placed, "p/b.py": placed})
    home = module if "train" not in module else "p/_spmd.py"
    assert ("p/_spmd.py" in files) is ("_spmd" in home)
    assert f"{PurePath(home).stem} import device_put_replicated" in files["p/a.py"]
    used, more = files["p/a.py"], "\n\ny = {}device_put_replicated(x, e)\n"
    files["p/a.py"] = f"import jax\n{used}{more.format('jax.')}"
    assert migrated(files)[0]["p/a.py"] == used + more.format("")


def test_a_module_that_is_there_gets_what_more_is_needed() -> None:
    texts = {"p/__init__.py": "", "p/a.py": SITE, "p/b.py": SITE}
    files, _ = migrated(texts)
    module = files["p/_spmd.py"]
    placed = {"p/c.py": "import jax\n\nx = jax.device_put_replicated(1, jax.devices())\n"}
    at_once, _ = migrated(texts | placed)
    script = {"s/run.py": f"from p import a\n{placed['p/c.py']}".replace("replicated", "sharded")}
    assert "def device_put_sharded(" in migrated(texts | script)[0]["s/run.py"]
    files, _ = migrated(files | placed)
    assert at_once["p/c.py"] == files["p/c.py"]
    assert "._spmd import device_put_replicated\n" in files["p/c.py"]
    after = files["p/_spmd.py"]
    assert after.partition("def spmd_map")[2].startswith(module.partition("def spmd_map")[2])
    assert after.count("def spmd_map(") == after.count("def device_put_replicated(") == 1
    assert migrated(files)[0] == files


IMPORT = "from _spmd import spmd_map\n"


@pytest.mark.parametrize(
    ("folder", "imports", "after"),
    [
        ("s/", "import jax\nimport b\n", f"import b\n{IMPORT}"),
        ("s/", "import jax\nimport optax\nimport b\n", f"import optax\nimport b\n{IMPORT}"),
        # Without neighbours it is in no section of its own, but in the root or in `src`.
        (
            "s/",
            "import jax\nimport z\n\nfrom p import x\n",
            f"import z\n{IMPORT}\nfrom p import x\n",
        ),
        ("src/", "import jax\nimport z\n", f"import z\n\n{IMPORT}"),
        ("", "import jax\nimport z\n", f"import z\n\n{IMPORT}"),
        ("", "import jax\nimport z\n\nfrom p import x\n", f"import z\n\n{IMPORT}from p import x\n"),
    ],
)
def test_the_import_is_among_those_of_its_kind(folder: str, imports: str, after: str) -> None:
    texts = {
        f"{folder}a.py": f"{imports}f = jax.pmap(g)\nmain()\n",
        f"{folder}b.py": f"{SITE}main()\n",
    }
    files = (*texts, "p", "p/__init__.py", "p/x.py", ".git")
    known = {str(Path(path).absolute()) for path in files}
    result = migrate(list(texts), lambda path: texts[path].encode(), known.__contains__)
    written = {file.path: file.after for file in result.files}
    assert written[f"{folder}a.py"] == f"{after}f = spmd_map(g)\nmain()\n"


# Files, the folders on sys.path, the modules to import, and the modules of helpers expected.
LAYOUTS: dict[str, tuple[str, list[str], list[str], list[str]]] = {
    "a gap in a package": (
        "pkg/__init__.py | pkg/sub/deep/__init__.py | pkg/sub/deep/n.py: SITE | "
        "pkg/sub/deep/m.py: from pkg.sub.deep import n; SITE | "
        "pkg/sub/deep/o.py: from . import n; SITE",
        ["."],
        ["pkg.sub.deep.m", "pkg.sub.deep.o"],
        ["pkg/_spmd.py"],
    ),
    "src with an __init__.py": (
        "src/__init__.py | src/pkg/__init__.py | src/pkg/n.py: SITE | "
        "src/pkg/m.py: from pkg import n; SITE",
        ["src"],
        ["pkg.m", "pkg.n"],
        ["src/pkg/_spmd.py"],
    ),
    "scripts around a package": (
        "lib/net.py: SITE | train.py: from lib import net; SITE | eval.py: import train; SITE",
        ["."],
        ["train", "eval", "lib.net"],
        ["lib/_spmd.py"],
    ),
    # A relative import may not go beyond the topmost package, whose parent has modules, too.
    "a package between modules": (
        "train.py: import pkg.step; SITE | evaluate.py: import config; SITE | config.py | "
        "pkg/__init__.py | pkg/util.py | pkg/step.py: import config; from . import util; SITE",
        ["."],
        ["train", "evaluate", "pkg.step"],
        ["_spmd.py"],
    ),
    "a docstring with imports": (
        'pkg/__init__.py | pkg/steps.py: SITE | pkg/more.py: SITE | scripts/bench.py: """Use:; ; '
        'from pkg.steps import make; """; SITE',
        ["scripts"],
        ["bench"],
        ["pkg/_spmd.py"],
    ),
}
IMPORT_ALL = """
import importlib, json, sys
for folder, roots, modules in json.loads(sys.argv[1]):
    before = set(sys.modules)
    sys.path[:0] = roots
    for module in modules:
        importlib.import_module(module)
    del sys.path[:len(roots)]
    for name in set(sys.modules) - before:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(folder):
            del sys.modules[name]
"""


def test_what_is_written_can_be_imported(tmp_path: Path) -> None:
    jobs = []
    for number, (files, roots, modules, expected) in enumerate(LAYOUTS.values()):
        folder = tmp_path / f"layout{number}"
        paths = [str(folder / name) for name in of(files)]
        for path, text in zip(paths, of(files).values(), strict=True):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_text(text.replace("SITE", SITE))
        result = migrate(paths, lambda path: Path(path).read_bytes(), os.path.exists)
        assert [os.path.relpath(m.path, folder) for m in result.helper_modules] == expected
        for file in result.changed:
            Path(file.path).write_text(file.after)
        jobs.append((str(folder), [str(folder / root) for root in roots], modules))
    done = children.run([sys.executable, "-c", IMPORT_ALL, json.dumps(jobs)], timeout=120)
    assert not done.returncode, done.stderr
