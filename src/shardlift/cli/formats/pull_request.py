"""A migration as the description of a pull request, in Markdown.

Whatever the repository says, names of files included, stands in code, where nothing is markup.
"""

from collections.abc import Iterable

from shardlift.cli.formats.migration import Quoting, RewriteReport
from shardlift.report.markdown import code, text
from shardlift.rewrite.goal import Goal
from shardlift.source.model import Kind

_SUCCESSORS = {
    Goal.SHARD_MAP: "`jax.jit(jax.shard_map(...))`",
    Goal.GLOBAL: "`jax.jit(jax.shard_map(...))` of whole arrays",
    Goal.JIT: "`jax.jit` of the whole batch",
    Goal.SHIM: "`shardlift.pmap`",
}


def markdown(report: RewriteReport) -> str:
    """The description."""
    sections = report.sections(Quoting(code, text))
    sections["What changes"].append(_promise(report))
    if report.verified is None:
        sections["What was verified"] = [
            f"Nothing was run. `{report.tool} --write --verify COMMAND` runs a program before and "
            "after, and compares every output of every mapped function."
        ]
    timed = ", and time a step before and after" if report.kinds.keys() - {Kind.NAME} else ""
    sections["What to do next"] = [f"Run the tests of the project on all devices{timed}."]
    if report.maps:
        told = "Search tests and documents for `pmap`: a mock of it has no effect now."
        sections["What to do next"].append(told)
    parts = [f"## {title}\n\n{_listed(lines)}" for title, lines in sections.items() if lines]
    return "\n\n".join([f"# {_title(report)}", *parts]) + "\n"


def _title(report: RewriteReport) -> str:
    if report.maps:
        return f"Replace `jax.pmap` by {_SUCCESSORS[report.goal]}"
    return "Repair what today's JAX removed or made slow" if report.kinds else "Nothing to change"


def _promise(report: RewriteReport) -> str:
    if report.goal in (Goal.GLOBAL, Goal.JIT):
        return "Arrays lose their axis of devices; numbers change by rounding at most."
    return "Shapes stay as they are, and no numbers are meant to change."


def _listed(lines: Iterable[str]) -> str:
    return "\n".join(f"  {line}" if line.startswith("- ") else f"- {line}" for line in lines)
