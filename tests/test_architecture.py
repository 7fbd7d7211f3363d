"""Imports between packages follow the table of docs/architecture.md."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "shardlift"
# "": shardlift itself, its version
TOOLS = {"_escape", "_files", "_import_hook", "_lazy", "_own_files", ""}


def _table() -> dict[str, set[str]]:
    """Package -> the packages that it may import, as the page says."""
    allowed = {}
    for line in (ROOT / "docs" / "architecture.md").read_text().splitlines():
        if line.startswith("| `"):
            packages, _, imports = line.strip("|").split(" | ")
            for package in re.findall(r"`(\w+)`", packages):
                allowed[package] = set(re.findall(r"`(\w+)`", imports))
                if imports.strip() == "everything":
                    allowed[package] = {path.stem for path in SOURCE.iterdir()}
    return allowed


def _package(module: str) -> str:
    return module.partition(".")[2].partition(".")[0]


def _imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and package of every import of shardlift, wherever it stands in the file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module == "shardlift":
            names = [
                f"shardlift.{alias.name}" for alias in node.names if alias.name != "__version__"
            ]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        else:
            continue
        yield from (
            (node.lineno, _package(name)) for name in names if name.split(".")[0] == "shardlift"
        )


FILES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_a_file_imports_only_what_its_package_may(path: Path) -> None:
    package = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    if package in ("__init__", "__main__"):
        return  # the public names, loaded lazily from every package
    allowed = _table()[package] | TOOLS | {package}
    wrong = [f"line {line}: {name}" for line, name in _imports(path) if name not in allowed]
    assert not wrong, f"{package} may not import: {wrong} (docs/architecture.md)"


def test_the_table_names_every_package() -> None:
    packages = {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in FILES}
    assert set(_table()) == packages - {"__init__", "__main__"}


def test_the_table_has_no_cycle() -> None:
    left = {name: imports - {name} for name, imports in _table().items()}
    while free := [name for name, imports in left.items() if not imports & set(left)]:
        for name in free:
            del left[name]
    assert not left


def test_a_class_name_stands_for_one_class() -> None:
    classes: dict[str, list[str]] = {}
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                place = f"{path.relative_to(SOURCE).as_posix()}:{node.lineno}"
                classes.setdefault(node.name, []).append(place)
    doubled = {name: places for name, places in classes.items() if len(places) > 1}
    assert not doubled, "one class per word: rename, or use the first"
