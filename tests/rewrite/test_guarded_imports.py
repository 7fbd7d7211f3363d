"""A file in which JAX is optional imports helpers where it imports JAX."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from shardlift.rewrite.engine import migrate
from shardlift.rewrite.imports import is_optional
from tests import children

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
    assert not is_optional(text)


CASES = {
    "try": (
        "try:\n    import jax\nexcept ImportError:\n    jax = None\n\n\n"
        "def step(x):\n    return jax.pmap(lambda x: jax.numpy.sin(x))(x)\n",
        "try:\n    import jax\n    from pkg._spmd import spmd_map\nexcept ImportError:\n"
        "    jax = None\n\n\ndef step(x):\n    return spmd_map(lambda x: jax.numpy.sin(x))(x)\n",
    ),
    "available": (
        "from pkg.flags import is_flax_available\n\nif is_flax_available():\n    import jax\n"
        "    from flax import linen\n\n"
        "    step = jax.pmap(lambda x: jax.numpy.sin(x))\n    linen\n",
        "from pkg.flags import is_flax_available\n\nif is_flax_available():\n    import jax\n"
        "    from flax import linen\n    from pkg._spmd import spmd_map\n\n"
        "    step = spmd_map(lambda x: jax.numpy.sin(x))\n    linen\n",
    ),
    "flag": (
        "import os\n\nif os.environ.get('MODE') == 'jax':\n    import jax\nelse:\n    import math\n"
        "\n\ndef step(x):\n    return jax.pmap(lambda x: jax.numpy.sin(x))(x)\n",
        "import os\n\nif os.environ.get('MODE') == 'jax':\n    import jax\n"
        "    from pkg._spmd import spmd_map\nelse:\n    import math\n"
        "\n\ndef step(x):\n    return spmd_map(lambda x: jax.numpy.sin(x))(x)\n",
    ),
    "function": (
        "def step(x):\n    import jax\n\n    return jax.pmap(lambda x: jax.numpy.sin(x))(x)\n\n\n"
        "def other():\n    import jax\n\n    return jax\n",
        "def step(x):\n    import jax\n    from pkg._spmd import spmd_map\n\n"
        "    return spmd_map(lambda x: jax.numpy.sin(x))(x)\n\n\n"
        "def other():\n    import jax\n\n    return jax\n",
    ),
    "one line": (
        "try: import jax\nexcept ImportError: pass\n\n\n"
        "def step(x):\n    return jax.pmap(lambda x: jax.numpy.sin(x))(x)\n",
        "try: import jax; from pkg._spmd import spmd_map\nexcept ImportError: pass\n\n\n"
        "def step(x):\n    return spmd_map(lambda x: jax.numpy.sin(x))(x)\n",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_import_is_in_the_same_guard(case: str) -> None:
    before, after = CASES[case]
    texts = {"pkg/__init__.py": "", "pkg/flags.py": "", "pkg/m.py": before}
    result = migrate(list(texts), lambda path: texts[path].encode(), _exists(texts))
    new = {file.path: file.after for file in result.files}
    assert new == {"pkg/m.py": after}
    again = {**texts, **new, **{file.path: file.after for file in result.helper_modules}}
    second = migrate(list(again), lambda path: again[path].encode(), _exists(again))
    assert not second.changed


def _exists(texts: dict[str, str]):  # type: ignore[no-untyped-def]
    known = {str(Path(path).absolute()) for path in texts} | texts.keys()
    return lambda path: path in known


def test_a_script_alone_has_them_beside_it() -> None:
    before, _ = CASES["try"]
    texts = {"run.py": before}
    result = migrate(["run.py"], lambda path: texts[path].encode(), lambda path: False)
    assert [file.path for file in result.helper_modules] == ["_spmd.py"]
    assert "    from _spmd import spmd_map\n" in result.files[0].after


def test_the_new_text_can_be_imported_without_jax(tmp_path: Path) -> None:
    names = []
    for name, (before, _) in CASES.items():
        folder = tmp_path / name.replace(" ", "_") / "pkg"
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text("")
        (folder / "flags.py").write_text("def is_flax_available():\n    return False\n")
        (folder / "m.py").write_text(before)
        paths = [str(path) for path in folder.iterdir()]
        result = migrate(paths, lambda path: Path(path).read_bytes(), lambda p: Path(p).exists())
        for file in result.changed:
            Path(file.path).write_text(file.after)
        names.append(str(folder.parent))
    program = (
        "import sys\nsys.modules['jax'] = None\n"
        f"for folder in {names!r}:\n"
        "    sys.path.insert(0, folder)\n    import pkg.m\n"
        "    for name in ('pkg', 'pkg.m', 'pkg.flags'): sys.modules.pop(name, None)\n"
        "    sys.path.remove(folder)\n"
    )
    done = children.run([sys.executable, "-c", program], timeout=60)
    assert not done.returncode, done.stderr
