"""What a run of `check` found in all, whatever the format that it is printed in."""

import shlex
from collections import Counter
from dataclasses import dataclass

from shardlift.check.engine import FileReport
from shardlift.check.rules import all_rules
from shardlift.cli.check_baseline import NAME
from shardlift.report.numbers import count
from shardlift.source.model import Finding, Level, Rewriter, Version, dotted


@dataclass(frozen=True)
class Report:
    """All files, in the order in which they were given."""

    files: tuple[FileReport, ...]
    target: Version
    skipped: tuple[str, ...] = ()  # files and folders that were left out
    known: int = 0  # findings that are in the baseline, and not in the reports of files
    fixed: int = 0  # findings of the baseline that are gone
    paths: tuple[str, ...] = ()  # as they were given
    installed: str = ""  # the JAX that is installed

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
        """The notebooks with cells that could not be parsed."""
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

    def closing(self) -> str:
        """What was found, for which JAX, and the next command to type."""
        installed = f" (installed: {self.installed})" if self.installed else ""
        versions = f"Checked for JAX {dotted(self.target)}{installed}."
        following = [f"Next: {command}" for command in self.next_commands()[:1]]
        return " ".join([self._total(), versions, *following])

    def _total(self) -> str:
        sites = count(sum(file.sites for file in self.files), "pmap site")
        if not self.findings:
            return f"No findings in {count(len(self.files), 'file')}, {sites}."
        files = count(len({finding.path for finding in self.findings}), "file")
        rewriters = Counter(finding.rewriter for finding in self.findings)
        names = {Rewriter.FIX: "[fix]", Rewriter.MIGRATE: "[migrate]", Rewriter.HAND: "by hand"}
        parts = [f"{rewriters[one]} {name}" for one, name in names.items() if rewriters[one]]
        found = count(len(self.findings), "finding")
        return f"{found} in {files}, {sites}: {', '.join(parts)}."

    def next_commands(self) -> list[str]:
        """What rewrites the findings, and what explains those that are left to do by hand."""
        rewriters = {finding.rewriter for finding in self.findings}
        by_rule = {f.code: f for f in self.findings if f.rewriter is Rewriter.HAND}
        order = list(Level)
        by_hand = sorted(by_rule, key=lambda code: (order.index(all_rules()[code].level), code))
        return [
            *(
                shlex.join(["shardlift", rewriter.value, *self.paths])
                for rewriter in (Rewriter.FIX, Rewriter.MIGRATE)
                if rewriter in rewriters
            ),
            *(f"shardlift rule {code}" for code in by_hand),
        ]

    def covered(self) -> list[str]:
        """Sentences on what was covered, what was not understood, and what was skipped."""
        parsed = [file for file in self.files if file.parsed]
        passed = [file for file in self.files if not file.parsed and file.unreadable is None]
        lines = [
            f"{count(len(self.files), 'file')}: {len(parsed)} read, {len(passed)} skipped "
            "(nothing a rule looks for)."
        ]
        if self.skipped:
            lines.append(
                f"{len(self.skipped)} ignored by git, excluded, as other people's code or "
                "as no file (--verbose names them)."
            )
        suppressed = sum(file.suppressed for file in self.files)
        if suppressed:
            lines.append(f"{count(suppressed, 'finding')} suppressed by noqa comments.")
        if self.known:
            lines.append(
                f"{count(self.known, 'known finding')} in {NAME} (--no-baseline shows them)."
            )
        if self.fixed:
            lines.append(
                f"{count(self.fixed, 'finding')} of {NAME} fixed: --write-baseline "
                "removes them from it."
            )
        if self.unreadable:
            lines.append(f"NOT looked at: {count(len(self.unreadable), 'file')}.")
            lines += [f"  {file.path}: {file.unreadable}" for file in self.unreadable]
        for file in self.broken_cells:
            cells = ", ".join(map(str, file.broken_cells))
            lines.append(f"NOT looked at in {file.path}: cell {cells} (not Python).")
        return lines
