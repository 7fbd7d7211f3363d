"""Calls of a pmap that cannot be followed: left alone, and listed with what to do."""

import pytest

from shardlift.check.engine import check_texts
from shardlift.rewrite.engine import migrate
from shardlift.rewrite.goal import Goal
from shardlift.rewrite.sites import list_unfollowed
from tests.rewrite.steps import refused


@pytest.mark.parametrize(
    "text",
    [
        "import jax\nstep = jax.pmap(f)\n",
        "import jax\ndef pmap(f):\n    return jax.pmap(f)\nstep = pmap(f)\n",
        "from p_tools import pmap\npmap(f, xs)\n",  # nothing of JAX
        "import jax\nif options['pmap']:\n    pass\n",
        "import jax\ndef run(pmap):\n    return pmap(f)\n",
    ],
)
def test_left_alone(text: str) -> None:
    assert not refused(list_unfollowed, text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import jax\nstep = backend()['pmap'](f)\n", "backend()['pmap'] is a table's"),
        ("import jax\nfrom trax import fastmath\nfastmath.pmap(f)\n", "fastmath.pmap is a pmap"),
        ("import jax\nfrom lib.parallel import pmap\npmap(f)\n", "pmap is a pmap of another"),
        ("import jax\ndef run(library):\n    library.pmap(f)\n", "library.pmap is a pmap"),
    ],
)
@pytest.mark.parametrize("goal", Goal)
def test_listed(text: str, reason: str, goal: Goal) -> None:
    (said,) = refused(list_unfollowed, text, goal)
    assert reason in said


TRAX = {
    "trax/fastmath/ops.py": "def pmap(*args, **kwargs):\n"
    "    return backend()['pmap'](*args, **kwargs)\n",
    "trax/fastmath/tables.py": "import jax\nTABLE = {'jit': jax.jit, 'pmap': jax.pmap}\n",
    "trax/train.py": "import jax\nfrom trax.fastmath.ops import pmap\nstep = pmap(f)\n",
}


def test_a_backend_table() -> None:
    reports = check_texts(TRAX)
    assert {path: report.sites for path, report in reports.items()} == {
        "trax/fastmath/ops.py": 1,
        "trax/fastmath/tables.py": 0,
        "trax/train.py": 1,
    }
    contents = {path: text.encode() for path, text in TRAX.items()}
    migration = migrate(list(contents), contents.__getitem__, lambda path: False)
    by_path = {file.path: file for file in migration.files}
    assert by_path["trax/fastmath/tables.py"].refused
    assert by_path["trax/fastmath/ops.py"].refused
    assert "trax/train.py" not in by_path  # it changes where its pmap is defined


@pytest.mark.parametrize(
    "text",
    [
        "import objax\nstep = objax.Parallel(f, vc)\n",
        "from flax import nnx\nstep = nnx.pmap(f, in_axes=axes)\n",
        "import equinox as eqx\nstep = eqx.filter_pmap(f, in_axes=axes)\n",
    ],
)
def test_other_libraries_are_sites_with_what_to_do(text: str) -> None:
    assert check_texts({"a.py": text})["a.py"].sites == 1
    content = {"a.py": text.encode()}
    (file,) = migrate(list(content), content.__getitem__, lambda path: False).files
    (change,) = file.refused
    assert "use " in change.reason or "objax" in change.reason
