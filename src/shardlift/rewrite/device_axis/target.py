"""The targets `--to global` and `--to jit`: files, facts and decisions in, changed files out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from shardlift.capture.schema import Capture
from shardlift.rewrite.changes import Decisions
from shardlift.rewrite.device_axis.dead_code import drop_dead_code
from shardlift.rewrite.device_axis.failures import NotFollowedError, blame
from shardlift.rewrite.device_axis.rewrites import analyse, plan
from shardlift.rewrite.goal import Goal
from shardlift.rewrite.passes import Rendering
from shardlift.source.file import File
from shardlift.source.model import Kind, Match
from shardlift.source.text import Source


class GlobalTarget:
    """A program whose values are followed once, whatever changes are chosen."""

    def __init__(self, files: Iterable[File], facts: Sequence[Capture], goal: Goal) -> None:
        """`facts` are those of recorded runs."""
        self._facts, self._goal = facts, goal
        self.program = analyse(files, facts)

    def lose(self, error: NotFollowedError) -> None:
        """Follow the values once more, without the file that failed."""
        old = self.program
        if error.file in old.lost:
            raise error.cause
        self.program = analyse(old.files, self._facts, {**old.lost, error.file: error.cause})

    def render(
        self, decisions: Decisions, unchanged: Callable[[Source], Rendering]
    ) -> dict[str, Rendering]:
        """The files that change because their arrays lose the device axis, or cannot."""
        while True:
            try:
                return self._render(decisions, unchanged)
            except NotFollowedError as error:
                self.lose(error)

    def _render(
        self, decisions: Decisions, unchanged: Callable[[Source], Rendering]
    ) -> dict[str, Rendering]:
        files = self.program.files
        planned = plan(self.program, decisions, self._goal)
        renderings = {file.path: unchanged(file.source) for file in files}
        for finding in planned.findings:
            rendering = renderings[finding.at.file.path]
            match = Match(finding.at.node, finding.text, kind=Kind.SITE)
            with blame(finding.at.file):
                rendering.refused.append(rendering.change(finding.at.file, match))
        for file in files:
            if file.path in planned.rewrites:
                with blame(file):
                    renderings[file.path].make(file, planned.rewrites[file.path])
        drop_dead_code(files, renderings)
        return {path: one for path, one in renderings.items() if one.changes or one.refused}
