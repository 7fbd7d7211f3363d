"""Sites that stay because of what is around them, and those beside them that do not."""

from __future__ import annotations

import json

import pytest

from tests.rewrite.test_programs import migrated

pytestmark = pytest.mark.usefixtures("many_sites")

SITE = "import jax\n\n\ndef f(x):\n    return x\n\n\ng = jax.pmap(f)\n"
PLAIN = "def f(x):\n    return x\n"
PACKAGE = {"p/__init__.py": "", "p/m.py": PLAIN, "p/n.py": PLAIN}


def about_pmap(name: str = "test_it_is_pmapable", doc: str = "") -> str:
    head = "import jax\nfrom p.m import f\n\n\n"
    return f'{head}def {name}():\n    """{doc}"""\n    assert jax.pmap(lambda x: f(x))(x).sum()\n'


def notebook(text: str) -> str:
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": text},
        {"cell_type": "code", "metadata": {}, "outputs": [], "source": SITE.rstrip()},
    ]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4})


BRANCHES = "import jax\n\n\ndef make(f, n):\n    {}\n"
CASES = {
    "a test of pmap": ({**PACKAGE, "tests/test_m.py": about_pmap()}, "this test is about pmap"),
    "a test that says so": (
        {**PACKAGE, "tests/test_m.py": about_pmap("test_f", "It runs under pmap.")},
        "this test is about pmap",
    ),
    "a test of other things": ({**PACKAGE, "tests/test_m.py": about_pmap("test_f")}, None),
    "the code has sites": ({**PACKAGE, "p/m.py": SITE, "tests/test_m.py": about_pmap()}, None),
    "a copy": (
        {**PACKAGE, "kfac_jax/__init__.py": "", "kfac_jax/optimizer.py": SITE},
        "it is in a copy of kfac_jax",
    ),
    "the project itself": ({"kfac_jax/__init__.py": "", "kfac_jax/optimizer.py": SITE}, None),
    "a folder of the name": ({**PACKAGE, "examples/haiku/train.py": SITE}, None),
    "the part for a library": ({**PACKAGE, "p/jax/__init__.py": "", "p/jax/m.py": SITE}, None),
    "a folder of others": (
        {**PACKAGE, "third_party/nets/steps.py": SITE},
        "it is in a copy of nets",
    ),
    "two branches": (
        {"m.py": BRANCHES.format("return jax.pmap(f) if n > 1 else jax.jit(f)")},
        "the other branch, line 5, has jax.jit of the same function",
    ),
    "two blocks": (
        {
            "m.py": BRANCHES.format(
                "if n > 1:\n        g = jax.pmap(f, 'i')\n"
                "    else:\n        g = jax.vmap(f, axis_name='i')\n    return g"
            )
        },
        "the other branch, line 8, has jax.vmap of the same function",
    ),
    "jit is mapped, or is alone": (
        {"m.py": BRANCHES.format("return jax.pmap(jax.jit(f)) if n > 1 else jax.jit(f)")},
        "the other branch, line 5, has jax.jit of the same function",
    ),
    "a notebook about pmap": ({"pmap_cookbook.ipynb": notebook("")}, "this part of the notebook"),
    "text about pmap": ({"m.ipynb": notebook("Now use `jax.pmap`:")}, "this part of the notebook"),
    "a part about pmap": ({"m.ipynb": notebook("## SPMD and `pmap`")}, "this part of the notebook"),
    "a part about training": ({"m.ipynb": notebook("## pmap\nText\n# Training")}, None),
    "another function": (
        {"m.py": BRANCHES.format("return jax.pmap(lambda x: x) if n > 1 else jax.jit(f)")},
        None,
    ),
}


@pytest.mark.parametrize(("files", "reason"), CASES.values(), ids=list(CASES))
def test_what_is_left_alone_is_listed(files: dict[str, str], reason: str | None) -> None:
    after, migration = migrated(files)
    refused = [change.reason for file in migration.files for change in file.refused]
    if reason is None:
        assert refused == []
        assert not any("jax.pmap" in text for text in after.values())
    else:
        assert [one.startswith(reason) for one in refused] == [True]
        assert after == files
