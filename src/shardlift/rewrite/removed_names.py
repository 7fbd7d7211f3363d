"""Names and options that JAX no longer has: the edits are those that `check` proposes.

Where there is no successor, the place is left as it is, with the sentence that `check` says. A use
inside a guard for its name is skipped, and said to be.
"""

from collections.abc import Iterator

from shardlift.check.renames import guarded_uses
from shardlift.check.rules import all_rules
from shardlift.rewrite.floors import floors
from shardlift.rewrite.goal import Goal
from shardlift.rewrite.left_alone import explains_pmap
from shardlift.source.file import File, remembered
from shardlift.source.model import MAPS, Kind, Level, Match, dotted
from shardlift.source.project import Project
from shardlift.source.removed_names import ALL, all_gone
from shardlift.source.scopes import FUNCTIONS


def rewrite(file: File, goal: Goal) -> Iterator[Match]:
    """Every finding of these rules, whatever the goal: the program does not run with them."""
    del goal
    for rule in all_rules().values():
        if Kind.NAME in rule.rewritten_as and rule.since <= file.target:
            for match in rule.visit(file):
                if rule.level is Level.SLOW and explains_pmap(file, match.node):
                    continue
                if match.edits or (rule.rewritten_as == {Kind.NAME} and rule.level is Level.BROKEN):
                    yield match
    for node, row, guard in guarded_uses(file, ALL):
        where = f"guarded on line {file.span(guard).line}"
        yield Match(node, f"{row.name} is {where}", kind=Kind.NAME, skipped=True)


@remembered
def lost(file: File) -> list[Match]:
    """The removed names of a file that have no successor."""
    return [m for m in rewrite(file, Goal.SHARD_MAP) if not m.edits and not m.skipped]


def needed(file: File) -> Iterator[tuple[str, str, bool]]:
    """Those of a file, and of the files that it imports: where, and whether imports need them."""
    graph, paths = file.project.graph, [file.path]
    for path in paths:
        paths += sorted(graph.targets(path) - {*paths})
        yield from ((path, *name) for name in _lost_names(file.project, path))


def _lost_names(project: Project, path: str) -> tuple[tuple[str, bool], ...]:
    known: dict[str, tuple[tuple[str, bool], ...]] = project.memo.setdefault(_lost_names, {})
    if path not in known:
        fresh = project.fresh()
        matches = [(f, m) for f in fresh.files_with("import", among=(path,)) for m in lost(f)]
        known[path] = tuple(
            (match.name, not any(isinstance(n, FUNCTIONS) for n in f.index.ancestors(match.node)))
            for f, match in matches
            if match.name not in ("", "jax.util")  # each of its functions is in the table
        )
        fresh.close()
    return known[path]


def why_too_new(file: File, match: Match) -> str | None:
    """Why a change waits: it needs a JAX that the file does not run with, now or after it."""
    settings = file.project.settings
    jax = max(floors((match,), match.helpers, (0,)), default=(0,))
    if match.kind in MAPS or jax <= (settings.oldest or (0,)):
        return None
    for _, name, on_import in needed(file):
        row = all_gone(settings).get(name)
        gone = row.gone if row is not None and name.startswith("jax.") else None
        is_lost = on_import and (gone is None or settings.oldest is not None)
        if is_lost or (gone is not None and (0,) < gone <= jax):
            return f"it needs JAX {dotted(jax)}, where this file does not run: it needs {name}"
    return None
