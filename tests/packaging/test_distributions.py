"""The sdist and the wheel: the same bytes from the same files, and nothing missing in them."""

import os
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

import shardlift
from tests.packaging.building import ROOT, build, copy_tree

pytest.importorskip("hatchling")
Built = tuple[Path, Path]  # sdist, wheel


def built_twice(folder: Path) -> tuple[Built, Built]:
    """The sdist and the wheel, twice: of two trees that differ in all that must not matter."""
    one, two = folder / "one", folder / "two" / "deeper" / "still"
    one.mkdir()
    two.mkdir(parents=True)
    first = build(copy_tree(one / "tree"), one / "out", umask=0o022)
    other = copy_tree(two / "another name")
    for k, path in enumerate(sorted(other.rglob("*"))):
        os.utime(path, (1_000_000_000 + k, 1_000_000_000 + k))
    for path in (other / "src/shardlift").rglob("*.py"):
        path.chmod(0o600)
    (other / "src/shardlift/__pycache__").mkdir()
    (other / "src/shardlift/__pycache__/junk.pyc").write_bytes(b"junk")
    return first, build(other, two / "out", umask=0o077)


def same_bytes_wherever_and_whenever(built):
    (sdist, wheel), (other_sdist, other_wheel) = built
    assert sdist.name == other_sdist.name
    assert wheel.name == other_wheel.name
    assert sdist.read_bytes() == other_sdist.read_bytes()
    assert wheel.read_bytes() == other_wheel.read_bytes()


def the_wheel_holds_the_package_and_nothing_else(built):
    with zipfile.ZipFile(built[0][1]) as archive:
        names = set(archive.namelist())
    source = ROOT / "src"
    wanted = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*")
        if path.is_file() and not {"__pycache__"} & set(path.parts) and path.suffix != ".pyc"
        and "egg-info" not in str(path)
    }  # fmt: skip
    info = f"shardlift-{shardlift.__version__}.dist-info"
    assert {name for name in names if not name.startswith(info)} == wanted
    assert {"shardlift/py.typed", "shardlift/cli/demo/program/train.py"} <= names
    assert f"{info}/licenses/LICENSE" in names


def the_sdist_builds_the_same_wheel(built, tmp_path):
    sdist, wheel = built[0]
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (tree,) = tmp_path.iterdir()
    assert build(tree, tmp_path / "out")[1].read_bytes() == wheel.read_bytes()
    for name in ("tests/conftest.py", "bench/__main__.py", "CITATION.cff", "SECURITY.md"):
        assert (tree / name).is_file(), name


def the_metadata_promises_what_is_there(built):
    with zipfile.ZipFile(built[0][1]) as archive:
        info = f"shardlift-{shardlift.__version__}.dist-info"
        metadata = message_from_bytes(archive.read(f"{info}/METADATA"))
        entry_points = archive.read(f"{info}/entry_points.txt").decode()
    assert metadata["Version"] == shardlift.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    required = [r for r in metadata.get_all("Requires-Dist") if "extra ==" not in r]
    assert sorted(r.partition(">")[0] for r in required) == ["click", "packaging", "rich"]
    assert "shardlift = shardlift.cli:main" in entry_points
    assert "Typing :: Typed" in metadata.get_all("Classifier")
    for line in metadata.get_payload().splitlines():
        assert not Path(line.strip()).is_absolute()


@pytest.mark.slow
@pytest.mark.exhaustive
def test_the_distributions(tmp_path):
    built = built_twice(tmp_path)
    same_bytes_wherever_and_whenever(built)
    the_wheel_holds_the_package_and_nothing_else(built)
    (tmp_path / "unpacked").mkdir()
    the_sdist_builds_the_same_wheel(built, tmp_path / "unpacked")
    the_metadata_promises_what_is_there(built)
