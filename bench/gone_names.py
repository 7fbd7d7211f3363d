"""Which public names of JAX since 0.2.28 are gone, and what becomes of each under `run` and `fix`?

    python -m bench.gone_names CLONE [--list restored|placeholder|rewritten|told|unknown]

CLONE is a clone of JAX's repository with its tags: every release is read for the names that its
public modules bind at their top level. A name is gone if the installed JAX has it no longer. Out of
scope, by these rules in this order, is what
- another library or another module lent the module for its own use (`np`, `partial`, `safe_map`);
- JAX has for its tests, examples and tools;
- belongs to kernels, converters and experiments that no pmap program meets: OUTSIDE below.
"""

from __future__ import annotations

import argparse
import ast
import functools
import importlib
import subprocess
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import shardlift
from shardlift._legacy import former
from shardlift.source.model import version
from shardlift.source.removed_names import ALL

OLDEST = "0.2.28"
TOOLS = ("jax.test_util", "jax.tools", "jax.example_libraries", "jax.collect_profile")
OUTSIDE = tuple(
    f"jax.experimental.{name}"
    for name in (
        *("array_api", "checkify", "colocated_python", "djax", "jax2tf", "key_reuse", "mosaic"),
        *("ode", "pallas", "rnn", "roofline", "serialize_executable", "slab", "sparse"),
    )
)
KINDS = {
    "restored": "works under `run`",
    "placeholder": "can be imported under `run`, and raises an error when it is used",
    "rewritten": "`fix` rewrites it",
    "told": "`check` says what to write, or that nothing replaces it",
    "lent": "out of scope: lent to the module by another one",
    "tools": "out of scope: tests, examples and tools",
    "outside": "out of scope: kernels, converters, experiments",
    "unknown": "not known",
}


def git(clone: Path, *arguments: str) -> str:
    """What a command of git prints."""
    command = ["git", "-C", str(clone), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def releases(clone: Path) -> list[str]:
    """The tags since OLDEST."""
    tags = git(clone, "tag", "--list", "jax-v*").split()
    dated = [tag for tag in tags if tag.removeprefix("jax-v").replace(".", "").isdigit()]
    return [tag for tag in dated if version(tag.removeprefix("jax-v")) >= version(OLDEST)]


def public_names(clone: Path) -> Iterator[tuple[str, str, bool]]:
    """Module, name, and whether the module only imported it, of every release."""
    seen: dict[str, str] = {}
    for tag in releases(clone):
        for line in git(clone, "ls-tree", "-r", tag, "jax/").splitlines():
            (_, _, blob), path = line.split("\t")[0].split(), line.split("\t")[1]
            if path.endswith(".py") and not any(part[0] == "_" for part in _parts(path)):
                seen[f"{blob} {'.'.join(_parts(path))}"] = blob
    for key, text in zip(seen, _texts(clone, list(seen.values())), strict=True):
        for name, lent in _bound(text):
            if not name.startswith("_"):
                yield key.partition(" ")[2], name, lent


def _texts(clone: Path, blobs: list[str]) -> Iterator[str]:
    """The contents of blobs."""
    command = ["git", "-C", str(clone), "cat-file", "--batch"]
    wanted = "\n".join(blobs).encode()
    data = subprocess.run(command, input=wanted, capture_output=True, check=True).stdout
    at = 0
    for _ in blobs:
        end = data.index(b"\n", at)
        size = int(data[at:end].split()[2])
        yield data[end + 1 : end + 1 + size].decode()
        at = end + size + 2


def _parts(path: str) -> list[str]:
    parts = path.removesuffix(".py").split("/")
    return parts[:-1] if parts[-1] == "__init__" else parts


def _bound(text: str) -> Iterator[tuple[str, bool]]:
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return
    own = any(isinstance(node, (ast.FunctionDef, ast.ClassDef)) for node in tree.body)
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name, False
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = (leaf for target in targets for leaf in ast.walk(target))
            yield from ((leaf.id, False) for leaf in names if isinstance(leaf, ast.Name))
        elif isinstance(node, ast.Import):
            yield from ((a.asname or a.name.partition(".")[0], True) for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            # `import a as a` exports; so does a module that defines nothing itself.
            inside = node.level or (node.module or "").partition(".")[0] in ("jax", "jaxlib")
            for a in node.names:
                yield a.asname or a.name, not inside or (own and a.asname != a.name)


def _has(module: str, name: str) -> bool:
    try:
        return hasattr(importlib.import_module(module), name)
    except Exception:
        return False


def kind(module: str, name: str, lent: bool) -> str:
    """What becomes of a gone name; to be asked inside ``shardlift.legacy()``."""
    path = f"{module}.{name}"
    row = _rows().get(path) or _rows().get(module)
    if _has(module, name):
        return "restored"
    if row is not None and row.same:
        return "rewritten"
    if lent:
        return "lent"
    if module.startswith(TOOLS):
        return "tools"
    if module.startswith(OUTSIDE):
        return "outside"
    if row is not None:
        return "told"
    return "unknown" if former.ask(module, name) is None else "placeholder"


@functools.cache
def _rows() -> dict[str, object]:
    return {row.name: row for row in ALL}


def main(arguments: Sequence[str] | None = None) -> int:
    """Count, and list if asked to."""
    parser = argparse.ArgumentParser(prog="python -m bench.gone_names")
    parser.add_argument("clone", type=Path)
    parser.add_argument("--list", choices=list(KINDS), default=None)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    names: dict[tuple[str, str], bool] = {}
    for module, name, lent in public_names(options.clone):
        names[module, name] = names.get((module, name), True) and lent
    gone = {key: lent for key, lent in names.items() if not _has(*key)}
    with shardlift.legacy():
        kinds = {key: kind(*key, lent) for key, lent in gone.items()}
    print(f"{len(names)} public names since JAX {OLDEST}, {len(gone)} are gone")
    for word, count in sorted(Counter(kinds.values()).items(), key=lambda pair: -pair[1]):
        print(f"| {count} | {KINDS[word]} |")
    listed = defaultdict(list)
    for (module, name), word in kinds.items():
        if word == options.list:
            listed[module].append(name)
    for module in sorted(listed):
        print(f"{module}: {' '.join(sorted(listed[module]))}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
