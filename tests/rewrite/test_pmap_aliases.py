"""A name that stands for pmap asks only for what its calls need."""

from __future__ import annotations

import pytest

from tests.rewrite.test_programs import migrated
from tests.rewrite.test_variants import written

HEAD = "import functools\nimport jax\nNAME = 'rows'\n"
ALIAS = f"{HEAD}pmap = functools.partial(jax.pmap, axis_name=NAME)\n"
USE = "from p import constants\n\n\ndef f(x):\n    return x\n\n\n"
ANYTHING = "axes remapped unnamed"


@pytest.mark.parametrize(
    ("alias", "use", "features"),
    [
        (ALIAS, "g = constants.pmap(f)\n", "remapped"),
        (ALIAS, "g = constants.pmap(f, donate_argnums=(0,))\n", "remapped donate"),
        (ALIAS, "g = constants.pmap(f, in_axes=(0, None))\n", "remapped axes"),
        (ALIAS, "@constants.pmap\ndef g(x):\n    return jax.vmap(f, in_axes=1)(x)\n", "remapped"),
        (
            f"{HEAD}pmap = jax.pmap\n",
            "g = constants.pmap(f, out_axes=1)\n",
            "remapped axes out_axes",
        ),
        (ALIAS, "def g(pmap=True):\n    return constants.pmap(f) if pmap else f\n", "remapped"),
        # Handed on, or with options that only the run knows: whatever the project says.
        (ALIAS, "g = use(constants.pmap)\nh = g(f, in_axes=1)\n", ANYTHING),
        (ALIAS, "g = use(constants.pmap)\nh = functools.partial(g, in_axes=1)\n", ANYTHING),
        (ALIAS, "g = use(constants.pmap)\nh = {'in_axes': 1}\n", ANYTHING),
        (ALIAS, "g = use(constants.pmap)\nh = jax.vmap(f, in_axes=1)\n", "remapped unnamed"),
        (ALIAS, "g = use(constants.pmap)\nh = jax.devices(backend='cpu')\n", "remapped unnamed"),
        (ALIAS, "g = use(constants.pmap)\noptions.setdefault('in_axes', 1)\n", ANYTHING),
        (ALIAS, "from p.constants import pmap as q\ng = q(f, in_axes=1)\n", ANYTHING),
        (ALIAS, "g = constants.pmap(f, **options)\nh = dict(in_axes=1)\n", ANYTHING),
    ],
)
def test_what_its_calls_need(alias: str, use: str, features: str) -> None:
    files = {"p/__init__.py": "", "p/constants.py": alias, "p/use.py": f"import jax\n{USE}{use}"}
    after, migration = migrated(files)
    assert not any(file.refused for file in migration.files)
    assert written(after["p/_spmd.py"]) == set(features.split())


LOCAL = "def run(x, fast):\n    {}\n    return a(x)(x)\n"


@pytest.mark.parametrize(
    ("text", "features"),
    [
        (LOCAL.format("a = jax.pmap if fast else jax.vmap"), "remapped"),
        (LOCAL.format("if fast:\n        a = jax.pmap\n    else:\n        a = abs"), "remapped"),
        (LOCAL.format("a = jax.pmap\n    b = a(x, donate_argnums=0)"), "remapped donate"),
        ("class C:\n    def __init__(self):\n        self.a = jax.pmap\n"
         "    def run(self, f):\n        return self.a(f, out_axes=1)\n",
         "remapped axes out_axes"),
        ("a = None\ndef set(n):\n    global a\n    a = jax.pmap\ndef run(f):\n"
         "    return a(f, out_axes=1)\n", "remapped axes out_axes"),
        # Handed on.
        (LOCAL.format("a = jax.pmap\n    use(a)"), "backend remapped unnamed"),
        ("def get(fast):\n    a = jax.pmap if fast else jax.vmap\n    return a\n",
         "backend remapped unnamed"),
    ],
)  # fmt: skip
def test_a_variable_or_an_attribute(text: str, features: str) -> None:
    files = {"p/__init__.py": "", "p/m.py": f"import jax\nplace(1, backend='cpu')\n{text}"}
    after, _ = migrated(files)
    assert written(after["p/_spmd.py"]) == set(features.split())
