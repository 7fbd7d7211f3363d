"""What a run of `check` found in all, whatever the format that it is printed in."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from shardlift.check.engine import FileReport
from shardlift.check.rules import all_rules
from shardlift.report.numbers import count
from shardlift.source.model import Finding, Level, Version
from shardlift.source.target import NEWEST


@dataclass(frozen=True)
class Report:
    """All files, in the order in which they were given."""

    files: tuple[FileReport, ...]
    target: Version
    skipped: tuple[str, ...] = ()  # files and folders that were left out
    ahead: int | None = None  # findings for the newest JAX, if the target is an older one
    known: int = 0  # findings that are in the baseline, and not in the reports of files
    fixed: int = 0  # findings of the baseline that are gone
    baseline: str = ""

    @property
    def findings(self) -> list[Finding]:
        """Every finding, file by file."""
        return [finding for file in self.files for finding in file.findings]

    @property
    def unreadable(self) -> list[FileReport]:
        """The files that could not be looked at."""
        return [file for file in self.files if file.unreadable is not None]

    @property
    def broken_cells(self) -> list[FileReport]:
        """The notebooks of which cells could not be looked at."""
        return [file for file in self.files if file.broken_cells]

    @property
    def levels(self) -> Counter[Level]:
        """How many findings of each level."""
        rules = all_rules()
        return Counter(rules[finding.code].level for finding in self.findings)

    def fails(self, least: Level) -> bool:
        """Whether there is a finding of this level, or of a worse one."""
        levels = list(Level)
        return any(self.levels[level] for level in levels[: levels.index(least) + 1])

    def _versions(self) -> str:
        here, newest = (".".join(map(str, number)) for number in (self.target, NEWEST))
        if self.ahead is None:
            return f"Findings are for JAX {here}."
        findings = count(len(self.findings), "finding")
        return f"{findings} for JAX {here}; {self.ahead} for {newest}: --target-jax {newest}"

    def covered(self) -> list[str]:
        """Sentences on what was covered, what was not understood, and what was skipped."""
        parsed = [file for file in self.files if file.parsed]
        passed = [file for file in self.files if not file.parsed and file.unreadable is None]
        sites = sum(file.sites for file in self.files)
        lines = [
            f"{count(len(self.files), 'file')}: {len(parsed)} read, {len(passed)} passed over "
            "(no word that a rule looks for).",
            f"{count(sites, 'pmap site')}. {self._versions()}",
        ]
        if self.skipped:
            lines.append(
                f"{len(self.skipped)} left out by .gitignore or exclude, as other people's code or "
                "as no file (--verbose names them)."
            )
        suppressed = sum(file.suppressed for file in self.files)
        if suppressed:
            lines.append(f"{count(suppressed, 'finding')} suppressed by noqa comments.")
        if self.known:
            lines.append(
                f"{count(self.known, 'known finding')} in {self.baseline} (--no-baseline shows "
                "them)."
            )
        if self.fixed:
            lines.append(
                f"{count(self.fixed, 'finding')} of {self.baseline} fixed: --write-baseline "
                "removes them from it."
            )
        if self.unreadable:
            lines.append(f"NOT looked at: {count(len(self.unreadable), 'file')}.")
            lines += [f"  {file.path}: {file.unreadable}" for file in self.unreadable]
        for file in self.broken_cells:
            cells = ", ".join(map(str, file.broken_cells))
            lines.append(f"NOT looked at in {file.path}: cell {cells} (not Python).")
        return lines
