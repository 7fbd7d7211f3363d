"""A file in which JAX is optional keeps what would need a helper."""

import pytest

from shardlift.rewrite.imports import OPTIONAL, is_optional
from shardlift.source.scopes import index_of
from tests.rewrite.test_programs import migrated

pytestmark = pytest.mark.usefixtures("many_sites")


@pytest.mark.parametrize(
    "text",
    [
        "import jax\n",
        "x = 1\n",
        "import jax\ntry:\n    import flax\nexcept ImportError:\n    flax = None\n",
        "from flax import linen\n\ndef f():\n    import jax\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import jax\n",
    ],
)
def test_jax_is_not_optional(text: str) -> None:
    assert not is_optional(index_of(text))


@pytest.mark.parametrize(
    "guard",
    [
        "try:\n    import jax\nexcept ImportError:\n    jax = None\n",
        "from pkg.flags import is_there\n\nif is_there():\n    import jax\n",
        "def f():\n    import jax\n\n    return jax\n",
    ],
)
def test_where_jax_is_optional_what_needs_a_helper_stays(guard: str) -> None:
    site = (
        f"{guard}\n\nstep = jax.pmap(lambda x: x)\n"
        if "def" not in guard
        else guard.replace("return jax", "return jax.pmap(lambda x: x)")
    )
    files, result = migrated({"m.py": site})
    assert files["m.py"] == site
    (change,) = result.files[0].refused
    assert change.reason == OPTIONAL
    placed = site.replace("jax.pmap(lambda x: x)", "jax.device_put_replicated(1, jax.devices())")
    files, result = migrated({"m.py": placed})
    assert files["m.py"] == placed
    assert [change.reason for change in result.files[0].refused] == [OPTIONAL]
