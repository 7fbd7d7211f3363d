"""From the files of a project to their new texts: what `migrate` does, without any I/O."""

from __future__ import annotations

import contextlib
import copy
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING

from shardlift.capture.schema import Capture
from shardlift.check.prefilter import active_codes
from shardlift.check.rules import all_rules
from shardlift.rewrite.changes import Change, Decisions
from shardlift.rewrite.drafts import finish, helper_modules
from shardlift.rewrite.goal import Goal
from shardlift.rewrite.helpers import LONG_HELPERS, SHORT_HELPERS
from shardlift.rewrite.home import MODULE, Home, find_homes, is_example, no_home, with_another
from shardlift.rewrite.layout import Exists, Layout
from shardlift.rewrite.output_reads import FIRST_OF_TREE
from shardlift.rewrite.passes import Rendering, render
from shardlift.rewrite.results import FileResult, Migration, ProcessChoice
from shardlift.source.model import HelperRequest, Kind
from shardlift.source.project import Project, is_test
from shardlift.source.settings import Settings
from shardlift.source.text import Source, UnreadableError, read_source, show_magics

if TYPE_CHECKING:
    from shardlift.rewrite.device_axis.rewrites import GlobalTarget

_STACKED = "all arrays keep their device axis"
_FAILED = "shardlift failed to follow them, please report it"


def migrate(
    paths: Sequence[str],
    read: Callable[[str], bytes],
    exists: Exists,
    goal: Goal = Goal.SHARD_MAP,
    decisions: Decisions | None = None,
    facts: Sequence[Capture] = (),
    settings: Settings = Settings(),
) -> Migration:
    """Rewrite the files at `paths` once: see `ProjectMigration`."""
    project = ProjectMigration(paths, read, exists, goal, facts, settings)
    return project.render(decisions or Decisions())


class ProjectMigration:
    """The migration of a project. Its files are read and parsed once.

    `render` gives the texts for any choice of the changes; of a file whose changes are chosen as
    before, the text is remembered.
    """

    def __init__(
        self,
        paths: Sequence[str],
        read: Callable[[str], bytes],
        exists: Exists,
        goal: Goal = Goal.SHARD_MAP,
        facts: Sequence[Capture] = (),
        settings: Settings = Settings(),
    ) -> None:
        """`read` raises OSError where it cannot; `facts`, of runs, are for `Goal.GLOBAL`."""
        # Whatever the order of the files: licences, homes and values are taken in this one.
        self._paths, self._read, self._exists = sorted(paths, key=PurePath), read, exists
        self._goal, self._facts = goal, facts
        self._project = Project(self._paths, lambda path: read_source(path, read(path)), settings)
        self._worth: list[str] = []
        self._unreadable: list[tuple[str, str]] = []
        self._stages: dict[object, _Stage] = {}
        self._layout = Layout(self._project, exists)
        for path in self._paths:
            try:
                if _is_worth(path, read(path)):
                    self._worth.append(path)
            except OSError as error:
                self._unreadable.append((path, error.strerror or str(error)))

    @property
    def lacks_facts(self) -> bool:
        """Whether facts of a run would be used, and there are none yet."""
        return self._goal in (Goal.GLOBAL, Goal.JIT) and not self._facts

    def use_facts(self, facts: Sequence[Capture]) -> None:
        """Render with the facts of these runs from now on."""
        self._facts = facts
        self._stages.clear()
        self.__dict__.pop("_target", None)

    def render(self, decisions: Decisions = Decisions()) -> Migration:
        """The new texts; nothing is written."""
        stage = self._stage(decisions)
        migration = self._render(stage, decisions)
        written = {file.path for file in migration.changed}
        missing = [p for p, start in stage.starts.items() if start.changes and p not in written]
        if not missing:
            return migration
        # The files fit together only if all of them are written.
        why = f"{_STACKED}: {missing[0]} could not be written"
        return self._render(_Stage(self._project, unreadable=[(missing[0], why)]), decisions)

    def _render(self, stage: _Stage, decisions: Decisions) -> Migration:
        unreadable = [*self._unreadable, *stage.unreadable]
        drafts: dict[str, Rendering] = {}
        for path in dict.fromkeys([*self._worth, *stage.starts]):
            with _list_files(path, unreadable):
                drafts[path] = self._draft(stage, path, decisions)
            stage.project.trim()
        homes = self._homes({path: draft.helpers for path, draft in drafts.items()})
        results: list[FileResult] = []
        for path, draft in drafts.items():
            with _list_files(path, unreadable):
                home = homes.get(path) or no_home(path, self._layout, self._exists)
                results.append(stage.finish(draft, home))
        modules = helper_modules(results, self._read, self._exists)
        texts = {module.path: module.after for module in modules}
        results = [
            replace(r, before=show_magics(r.before), after=show_magics(texts.pop(r.path, r.after)))
            for r in results
        ]
        modules = tuple(module for module in modules if module.path in texts)
        shown = tuple(r for r in results if r.changed or r.refused or r.skipped)
        processes = self._processes(shown)
        settings = self._project.settings
        migration = Migration(
            shown,
            modules,
            tuple(unreadable),
            len(self._paths),
            processes,
            self._goal,
            settings.oldest,
            settings.installed,
        )
        return replace(migration, stopped=self._stopped(migration))

    def _stopped(self, migration: Migration) -> frozenset[str]:
        """The files beside the modules of a project that do not run on the target."""
        stopped = frozenset(path for one in migration.missing for path in one.paths)
        listed = (p for p in self._paths if stopped and not is_test(p) and not is_example(p))
        modules = {path for path in listed if self._project.is_module(path, stopped)}
        return stopped - modules if modules else frozenset()

    def _homes(self, helpers: Mapping[str, Collection[HelperRequest]]) -> dict[str, Home]:
        """Where the files have their helpers: in the file, if no two files need the same one."""
        asked = {path: {one.name for one in requests} for path, requests in helpers.items()}
        names = {path: some for path, some in asked.items() if some - SHORT_HELPERS}
        homes = find_homes(names, self._layout, self._exists)
        at = {path: home.path or path for path, home in homes.items()}
        needed = Counter((at[path], name) for path in names for name in names[path])
        asking = {
            path
            for path in homes
            if (PurePath(at[path]).stem == MODULE and self._exists(at[path]))
            or not self._layout.helpers_in(at[path]).isdisjoint(names[path])
            or any(needed[at[path], name] > 1 for name in names[path])
            or (len(names[path]) > 1 and names[path] & LONG_HELPERS)
        }
        shared = {at[path] for path in asking}
        for path in homes.keys() - asking:  # what a script outside of a package needs stays there
            if at[path] in shared and PurePath(path).is_relative_to(PurePath(at[path]).parent):
                asking.add(path)
        homes = {path: home for path, home in homes.items() if path in asking}
        short = {path: some for path, some in asked.items() if some and path not in names}
        return homes | with_another(short, self._layout, self._exists)

    def _processes(self, files: Sequence[FileResult]) -> tuple[ProcessChoice, ...]:
        """For how many processes the sites of the program are written: at most one line each."""
        if self._goal is Goal.SHIM:
            return ()
        asked = self._project.settings.many_processes is not None
        choices: list[ProcessChoice] = []
        for file in files:
            many = self._project.has_many_processes(file.path)
            kept = many and _maps(file.refused)
            if kept or _maps(file.rewritten):
                line = None if asked else self._project.process_evidence(file.path)
                choices.append(ProcessChoice(many, line, asked, kept, file.path))
        # A line says more than its absence.
        choices.sort(key=lambda choice: (choice.many, not choice.kept, choice.line is None))
        first = tuple({choice.many: choice for choice in reversed(choices)}.values())
        return first if len(first) > 1 else tuple(replace(choice, path="") for choice in first)

    def _stage(self, decisions: Decisions) -> _Stage:
        """The files as the step that needs all of them together leaves them."""
        if self._goal not in (Goal.GLOBAL, Goal.JIT):
            return self._stages.setdefault(None, _Stage(self._project))
        key = frozenset(decisions.left.items())
        if key not in self._stages:
            self._stages[key] = self._to_global(decisions)
        return self._stages[key]

    @cached_property
    def _target(self) -> GlobalTarget:
        from shardlift.rewrite.device_axis.rewrites import GlobalTarget  # most runs need none

        files = self._project.files_where(lambda _: True)
        return GlobalTarget(files, self._facts, self._goal)

    def _to_global(self, decisions: Decisions) -> _Stage:
        starts: Mapping[str, Rendering] = {}
        unreadable: list[tuple[str, str]] = []
        try:
            starts = self._target.render(decisions, self._unchanged)
        except Exception as error:
            why = str(error) if isinstance(error, UnreadableError) else f"{_FAILED}: {error!r}"
            unreadable.append((os.path.commonpath(self._paths), f"{_STACKED}: {why}"))
        settings = self._project.settings
        project = Project(self._paths, lambda path: _source(path, self._read, starts), settings)
        return _Stage(project, starts, unreadable)

    def _draft(self, stage: _Stage, path: str, decisions: Decisions) -> Rendering:
        """A file with its new text, but for its imports and helpers."""
        left = {change: why for change, why in decisions.left.items() if change.path == path}
        key = path, frozenset(left.items()), decisions.lines
        if key not in stage.drafts:
            start = stage.starts.get(path) or self._unchanged(read_source(path, self._read(path)))
            draft = copy.deepcopy(start)
            file = stage.project.fresh().file(path, draft.source)
            render(file, self._goal, draft, left, decisions.lines)
            stage.drafts[key] = draft
        return stage.drafts[key]

    def _unchanged(self, source: Source) -> Rendering:
        if source.cells is None:
            return Rendering.of(source)
        return Rendering.of(source, self._read(source.path).decode("utf-8-sig"))


@contextlib.contextmanager
def _list_files(path: str, unreadable: list[tuple[str, str]]) -> Iterator[None]:
    """List a file that cannot be rewritten, with the reason; the others are rewritten."""
    try:
        yield
    except UnreadableError as error:
        unreadable.append((path, str(error)))
    except (RecursionError, MemoryError):
        unreadable.append((path, "nested too deeply"))
    except OSError as error:  # it has gone meanwhile
        unreadable.append((path, error.strerror or str(error)))
    except Exception as error:  # a bug in shardlift
        unreadable.append((path, f"shardlift failed on it, please report it: {error!r}"))


@dataclass
class _Stage:
    """A project whose files are rewritten one by one, and the drafts so far."""

    project: Project
    starts: Mapping[str, Rendering] = field(default_factory=dict)
    unreadable: list[tuple[str, str]] = field(default_factory=list)
    drafts: dict[object, Rendering] = field(default_factory=dict)
    results: dict[object, FileResult] = field(default_factory=dict)

    def finish(self, draft: Rendering, home: Home) -> FileResult:
        """The result of a draft, which is remembered."""
        key = id(draft), home
        if key not in self.results:
            self.results[key] = finish(draft, home)
        return self.results[key]


def _maps(changes: Iterable[Change]) -> bool:
    return any(change.kind in (Kind.SITE, Kind.VALUE) for change in changes)


def _source(path: str, read: Callable[[str], bytes], starts: Mapping[str, Rendering]) -> Source:
    return starts[path].source if path in starts else read_source(path, read(path))


def _is_worth(path: str, content: bytes) -> bool:
    if not any(word in content for word in (b"jax", b"JAX", b"flax", b"pmap")):
        return False
    codes = tuple(c for c, rule in all_rules().items() if rule.rewritten_as)
    is_named = active_codes(content, codes, path.endswith(".ipynb"))
    return bool(is_named) or FIRST_OF_TREE.search(content) is not None
