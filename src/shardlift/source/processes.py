"""Whether several processes run a program, and the line that shows it.

A program of many processes joins a job, splits data by the process index, or counts processes.
`if jax.process_index() == 0: print(…)` and messages do not count: they also work in one process;
`if jax.process_index() == 0: save(…)` does: one of several writes the file. So does a program that
asks for its process and counts all devices and its own, or gives a function both numbers.
So does a notebook, unless it joins a job: its kernel is one process.
`assert jax.process_count() == 1` shows a program of one process.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING

from shardlift.source.scopes import FUNCTIONS, last_name

if TYPE_CHECKING:
    from shardlift.source.file import File

ONE_PROCESS_ONLY = "written for one process, not for several"  # what helpers raise
_INDEX = frozenset({"process_index", "host_id"})
_COUNT = frozenset({"process_count", "host_count"})
# What makes sense in several processes only, of multihost_utils, tensorflow_datasets and scenic.
_JOINT = frozenset({
    "process_allgather", "broadcast_one_to_all", "split_for_jax_process", "barrier_across_hosts",
})  # fmt: skip
_CALLED = _INDEX | _COUNT | _JOINT | {"initialize", "device_count", "local_device_count"}
_SIGNS = (*_INDEX, *_COUNT, *_JOINT)
_JAX_INDEX = frozenset(f"jax.{name}" for name in _INDEX)
_DEVICES, _OWN_DEVICES = "jax.device_count", "jax.local_device_count"
_ALL_DEVICES = re.compile(r"\bdevice_count\b")
# The module, or the name of it in an import; in licences another word follows.
_DISTRIBUTED = re.compile(r"\bdistributed\b(?![ \t]+(?!as\b|import\b)[a-z])")
# `set_task_status` and `set_notes` are of the work units of clu.platform.
_MESSAGES = re.compile(
    r"(^|\.)(print|log|debug|info|warning|warn|error|exception|write|format|set_task_status|set_notes)$"
)
_WRITES = re.compile(
    r"^(save|dump|mkdir|makedirs|open$|init$|write_(file|bytes|text))|(?i:checkpoint|_ckpt|writer$)"
)
# Expressions that may contain the call.
_PARTS = (ast.Compare, ast.BoolOp, ast.UnaryOp, ast.BinOp, ast.JoinedStr, ast.FormattedValue)


@dataclass(frozen=True)
class Evidence:
    """A line that shows whether one or many processes run its program."""

    path: str
    line: int
    text: str
    many: bool


def may_be_evidence(text: str) -> bool:
    """Whether a text is worth parsing to find evidence."""
    if "jax" not in text:
        return False
    joins = "initialize" in text and _DISTRIBUTED.search(text) is not None
    divides = "local_device" in text and _ALL_DEVICES.search(text) is not None
    return joins or divides or any(sign in text for sign in _SIGNS)


def evidence_in(file: File) -> Evidence | None:
    """The first line of a file that decides; lines that show one process come first."""
    calls = file.index.nodes(ast.Call)
    named = {
        call: file.called(call) or ""
        for call in calls
        if not isinstance(call.func, ast.Attribute) or call.func.attr in _CALLED
    }
    shown: list[tuple[ast.expr, bool]] = []
    for call, name in named.items():
        many = _shows_many(file, call, name)
        if many is not None:
            shown.append((call, many))
    if file.source.cells is None:
        shown += [(node, True) for node in _counts_of_both(file, named)]
    evidence = [Evidence(file.path, file.span(n).line, file.brief(n), many) for n, many in shown]
    return min(evidence, key=lambda e: (e.many, e.line), default=None)


def _shows_many(file: File, call: ast.Call, name: str) -> bool | None:
    """Whether a call shows a program of many processes, or of one; None if neither."""
    module, _, last = name.rpartition(".")
    if module == "jax.distributed":
        return True if last == "initialize" else None
    if last_name(call.func) in _JOINT:
        return True
    if last not in _INDEX | _COUNT or module not in ("jax", "jax.lib.xla_bridge"):
        return None
    if file.source.cells is not None:
        return None
    around = takewhile(lambda node: not isinstance(node, FUNCTIONS), file.index.ancestors(call))
    for child, parent in pairwise([call, *around]):
        if isinstance(parent, ast.Assert):
            return None if last in _INDEX else not _is_compared_with_one(file, call)
        if isinstance(parent, ast.Call) and child is not parent.func:
            if _MESSAGES.search(last_name(parent.func)) is None:
                break
            return None
        if isinstance(parent, _PARTS):
            continue
        if isinstance(parent, ast.If) and child is parent.test:
            if last in _INDEX:  # what one process writes, several would overwrite
                return True if any(_writes(node) for node in parent.body) else None
            if _is_of_helper(parent):
                return None
            raises = isinstance(parent.body[-1], ast.Raise)
            return not (raises and _is_compared_with_one(file, call))
        if isinstance(parent, ast.IfExp) and child is parent.test and last in _INDEX:
            return None
        break
    if last in _INDEX and isinstance(file.index.parents.get(call), ast.Compare):
        return True if isinstance(parent, ast.Assign) and _guards_writes(file, parent) else None
    return True


def _counts_of_both(file: File, named: Mapping[ast.Call, str]) -> Iterator[ast.expr]:
    """Where it matters that a process may have some of all devices only."""
    if "local_device" not in file.source.text:
        return
    for division in file.index.nodes(ast.BinOp):
        if isinstance(division.op, (ast.Div, ast.FloorDiv)):
            right = file.definition(division.right)
            if isinstance(right, ast.Call) and last_name(right.func) == "len" and right.args:
                right = right.args[0]
            of_own = file.called(right) in (_OWN_DEVICES, "jax.local_devices")
            if of_own and file.called(file.definition(division.left)) == _DEVICES:
                yield division
    both = {_DEVICES, _OWN_DEVICES}
    if both <= {*named.values()}:
        yield from (call for call, name in named.items() if name in _JAX_INDEX)
        for call in file.index.nodes(ast.Call):
            if both <= {*map(file.called, call.args)} and not _MESSAGES.search(
                last_name(call.func)
            ):
                yield call


def _guards_writes(file: File, flag: ast.Assign) -> bool:
    """Whether a branch under a flag such as `is_main = jax.process_index() == 0` writes files."""
    return any(
        isinstance(name, ast.Name)
        and file.definition(name) is flag.value
        and any(map(_writes, branch.body))
        for branch in file.index.nodes(ast.If)
        for name in ast.walk(branch.test)
    )


def _is_compared_with_one(file: File, call: ast.Call) -> bool:
    """Whether it is `process_count() == 1` and the like; `n % process_count()` divides work."""
    parent = file.index.parents.get(call)
    if not isinstance(parent, ast.Compare):
        return False
    numbers = [n.value for n in (parent.left, *parent.comparators) if isinstance(n, ast.Constant)]
    return bool(numbers) and set(numbers) <= {1, 2}


def _writes(statement: ast.stmt) -> bool:
    """Whether a statement writes files, other than a log."""
    calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
    return any(_WRITES.search(last_name(call.func)) for call in calls)


def _is_of_helper(branch: ast.If) -> bool:
    """Whether it is the check that written code makes itself."""
    nodes = ast.walk(branch.body[-1])
    return any(isinstance(n, ast.Constant) and n.value == ONE_PROCESS_ONLY for n in nodes)
