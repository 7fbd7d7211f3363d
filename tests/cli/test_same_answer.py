"""What `check` finds and `migrate` writes depends on the files, and on nothing else.

Not on their order, or on what was parsed before.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from shardlift.check.engine import RuleSelection
from shardlift.cli.check_files import check_files
from shardlift.rewrite.engine import migrate
from shardlift.source.project import Project

EXAMPLES = Path(__file__).parents[2] / "examples"
FOLDERS = sorted(path for path in EXAMPLES.iterdir() if path.is_dir())
TRAIN = """import jax
from {module} import step
out = jax.pmap(step)(x)
print(out[0])
"""
# Nothing in it has to do with pmap, but what `step` returns decides about `out[0]`.
MODELS = "import jax.numpy as jnp\n\n\ndef step(x):\n    return jnp.sin(x)\n"
# A value that is resolved in a circle: the file that is asked first sees more of it.
CIRCLE = {
    "ring_a.py": "import jax\nfrom ring_b import pmap as p\npmap = p or jax.pmap\nf = pmap(h)\n",
    "ring_b.py": "from ring_a import pmap\ng = pmap(h)\n",
}


def _find(paths: Sequence[str]) -> dict[str, object]:
    return {r.path: (r.findings, r.parsed, r.sites) for r in check_files(paths, RuleSelection())}


def _rewrite(paths: Sequence[str]) -> dict[str, str]:
    made = migrate(paths, lambda path: Path(path).read_bytes(), os.path.exists)
    return {file.path: file.after for file in made.changed}


def _write(folder: Path, texts: dict[str, str]) -> list[str]:
    for name, text in texts.items():
        (folder / name).write_text(text)
    return [str(folder / name) for name in texts]


def _always_trim(project: Project, most: int = 0) -> bool:
    return _TRIM(project, 0)


_TRIM = Project.trim


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_order_of_files_and_a_trim_change_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = sorted(str(path) for path in folder.rglob("*") if path.suffix in (".py", ".ipynb"))
    found, rewritten = _find(paths), _rewrite(paths)
    assert found == _find(paths[::-1])
    assert rewritten == _rewrite(paths[::-1])
    monkeypatch.setattr(Project, "trim", _always_trim)
    assert found == _find(paths)
    assert rewritten == _rewrite(paths)


@pytest.mark.parametrize("module", ["a_models", "z_models"])
def test_a_function_of_another_module_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    monkeypatch.setattr(Project, "trim", _always_trim)
    texts = {"train.py": TRAIN.format(module=module), f"{module}.py": MODELS}
    paths = _write(tmp_path, texts | CIRCLE)
    reports = check_files(paths, RuleSelection())
    assert "SL401" in {finding.code for r in reports for finding in r.findings}
    assert "out[0]" not in _rewrite(paths)[paths[0]]
    assert _find(paths) == _find(paths[::-1])
    assert _rewrite(paths) == _rewrite(paths[::-1])
