"""What comes of a migration: the new texts of files, and of the project as a whole."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field

from shardlift.rewrite.changes import Change
from shardlift.rewrite.floors import SITES, TESTED, TREE_NAMES, floors, successor_of
from shardlift.rewrite.goal import Goal
from shardlift.rewrite.home import Home, is_example
from shardlift.source.model import HelperRequest, Version
from shardlift.source.processes import Evidence
from shardlift.source.project import is_test
from shardlift.source.removed_names import GONE, KEYWORD_ROWS, Removed

_ROWS = {row.name: row for row in (*GONE, *KEYWORD_ROWS.values())}


@dataclass(frozen=True)
class FileResult:
    """What came of one file."""

    path: str
    before: str
    after: str
    rewritten: tuple[Change, ...] = ()
    refused: tuple[Change, ...] = ()
    skipped: tuple[Change, ...] = ()  # the program's own guards for removed names
    helpers: frozenset[HelperRequest] = frozenset()
    home: Home = field(default_factory=lambda: Home(None))

    @property
    def changed(self) -> bool:
        """Whether the text is another one."""
        return self.before != self.after


@dataclass(frozen=True)
class ProcessChoice:
    """For how many processes sites are written, and why."""

    many: bool
    line: Evidence | None = None  # None: asked for, or one process as nothing shows several
    asked: bool = False
    kept: bool = False  # sites keep jax.pmap: what is written for them is for one process
    path: str = ""  # a file that it holds for, if there is another choice for others


@dataclass(frozen=True)
class NeededName:
    """A name that the target no longer has, and the files that need it as they are imported."""

    row: Removed
    paths: tuple[str, ...]


@dataclass(frozen=True)
class Migration:
    """What came of a project: its files that have something to say, and its modules of helpers."""

    files: tuple[FileResult, ...]
    helper_modules: tuple[FileResult, ...] = ()
    unreadable: tuple[tuple[str, str], ...] = ()
    looked_at: int = 0
    processes: tuple[ProcessChoice, ...] = ()  # of its programs that are mapped
    goal: Goal = Goal.SHARD_MAP
    oldest: Version | None = None  # the oldest JAX that names were written for
    installed: tuple[str, ...] = ("",)  # how the paths begin that those who install it get
    requirements: tuple[FileResult, ...] = ()  # files that say which JAX the project needs
    # Beside its modules: scripts, notebooks and tests that need removed names as they are run.
    stopped: frozenset[str] = frozenset()

    @property
    def changed(self) -> tuple[FileResult, ...]:
        """Every file that has another text now, new ones included."""
        files = (*self.helper_modules, *self.files, *self.requirements)
        return tuple(file for file in files if file.changed)

    @property
    def needed_jax(self) -> Version | None:
        """The oldest JAX that runs the new text; None if all that the project allows do."""
        return max(filter(None, map(self._floor, self.files)), default=None)

    def needed_for(self, needed: Version) -> tuple[str, ...]:
        """The first name that needs this JAX, and its place; empty if names of trees do."""
        for file in self.files if needed != TREE_NAMES else ():
            for change in file.rewritten:
                successor = successor_of(change)
                if successor and max(floors((change,), frozenset(), self.oldest)) == needed:
                    return successor, f"{file.path}:{change.span.line}"
        return ()

    @property
    def missing(self) -> tuple[NeededName, ...]:
        """The removed names that keep modules from being imported, most files first."""
        paths: dict[str, set[str]] = {}
        for file in self.files:
            for change in file.refused:
                if change.name in _ROWS and change.on_import:
                    paths.setdefault(change.name, set()).add(file.path)
        names = (NeededName(_ROWS[name], tuple(sorted(files))) for name, files in paths.items())
        return tuple(sorted(names, key=lambda removed: (-len(removed.paths), removed.row.name)))

    @property
    def modules_run(self) -> bool:
        """Whether none of them keeps a module from being imported that others need."""
        return self.stopped.issuperset(path for one in self.missing for path in one.paths)

    @property
    def missing_in_functions(self) -> tuple[str, ...]:
        """The removed names that only calls need: the modules can be imported without them."""
        refused = (change for file in self.files for change in file.refused)
        return tuple(sorted({change.name for change in refused if not change.on_import} - {""}))

    @property
    def oldest_that_runs(self) -> Version | None:
        """The oldest JAX that names have to be for: that of the requirements, if they have a bound.

        Without one any, if the program runs with an old one only. Newer if what is written besides
        such names needs it, and None if that leaves pmap.
        """
        refused = [change for file in self._program for change in file.refused]
        runs_today = not any(change.name and change.on_import for change in refused)
        program = [floors(file.rewritten, file.helpers, (0,)) for file in self._program]
        needed = max((version for versions in program for version in versions), default=(0,))
        oldest = self.oldest or (None if runs_today else (0,))
        if oldest is None or needed >= SITES:
            return None
        return max(oldest, needed) if needed < TREE_NAMES else oldest

    @property
    def needed_by_program(self) -> Version | None:
        """The same, of files that are neither tests, examples, notebooks nor beside packages."""
        return max(filter(None, map(self._floor, self._program)), default=None)

    @property
    def needed_below(self) -> Version | None:
        """The first JAX that the program does not run on: one that has no name that is left."""
        names = {change.name for file in self._program for change in file.refused}
        rows = [_ROWS[name] for name in names & _ROWS.keys() if name.startswith("jax.")]
        return min((row.gone for row in rows if row.gone > (0,)), default=None)

    @property
    def runs_nowhere(self) -> bool:
        """Whether what is written needs a newer JAX than what is left."""
        needed, below = self.needed_by_program, self.needed_below
        return needed is not None and below is not None and below <= needed

    @property
    def _program(self) -> Iterator[FileResult]:
        """The files that raise requirements: what others need raises none of those who install."""
        for file in self.files:
            others = is_test(file.path) or is_example(file.path) or file.path.endswith(".ipynb")
            others = others or file.path in self.stopped
            if not others and os.path.abspath(file.path).startswith(self.installed):
                yield file

    def _floor(self, file: FileResult) -> Version | None:
        if self.goal is Goal.SHIM and file.rewritten:
            return TESTED  # what shardlift itself needs
        floor = max(floors(file.rewritten, file.helpers, self.oldest), default=(0,))
        return floor if floor > (0,) else None
