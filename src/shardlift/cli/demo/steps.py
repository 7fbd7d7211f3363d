"""The steps of the journey, in their order. Each is of use alone, and says if it went as it should.

Nothing is known beforehand: a step runs the commands of the product and judges what they did.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata, resources
from typing import NamedTuple

from rich.padding import Padding

from shardlift.cli import contents
from shardlift.cli.children import Done
from shardlift.cli.demo.cost import STEPS as STEPS_TIMED
from shardlift.cli.demo.cost import measure, table
from shardlift.cli.demo.stage import DEVICES, Stage, folded

__all__ = ["AFTER", "BEFORE", "STEPS", "Step", "Verdict", "bundled", "needed_for"]

BEFORE, AFTER = "before/train.py", "after/train.py"
RUN, PAGE = "run.json", "report.html"


class Verdict(NamedTuple):
    """What came of a step."""

    good: bool
    text: str


class Step(NamedTuple):
    """One step: its name on the command line, what it is for, what it needs and what it writes."""

    name: str
    title: str
    play: Callable[[Stage], Verdict]
    needs: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()


def fail(stage: Stage) -> Verdict:
    """Today's JAX against the program as it is."""
    lines = bundled()[BEFORE].count(b"\n")
    stage.say(f"{BEFORE}, {lines} lines, trains a classifier on all devices with jax.pmap.")
    done = stage.run(f"python {BEFORE}", shown=stage.verbose)
    if not stage.verbose:
        stage.show("\n".join(done.output.splitlines()[-3:]))
    said = done.output.rstrip().rpartition("\n")[2]
    jax = f"JAX {metadata.version('jax')}"
    if done.status == 0:
        return Verdict(False, f"{jax} runs it, which it should not")
    broken = said.startswith(("ModuleNotFoundError", "ImportError", "AttributeError"))
    return Verdict(broken, f"{jax} no longer runs it")


def run(stage: Stage) -> Verdict:
    """The program as it is, with what JAX removed put back for the length of it."""
    done = stage.run(f"shardlift run --devices {DEVICES} --record {RUN} {BEFORE}")
    return _by_status(done, 0, f"It runs, unmodified; {RUN} has what every pmap did")


def report(stage: Stage) -> Verdict:
    """What the run did and cost."""
    done = stage.run(f"shardlift report {RUN} --html {PAGE}")
    if done.status not in (0, 1) or not stage.folder.has(PAGE):
        return _by_status(done, 0, "")
    return Verdict(True, f"{PAGE} has it all on one page, with a timeline")


def check(stage: Stage) -> Verdict:
    """What is wrong in the source."""
    done = stage.run(f"shardlift check {BEFORE}")
    return _by_status(done, 1, "What has to change is known, and nothing was executed")


def migrate(stage: Stage) -> Verdict:
    """A copy of the program, rewritten."""
    folder = stage.folder
    folder.put(AFTER, bundled()[BEFORE])
    stage.say(f"{AFTER} is a copy of {BEFORE}.")
    diff = stage.run(f"shardlift migrate {AFTER}", shown=False)
    stage.show(diff.output if stage.verbose else folded(diff.output))
    if diff.status != 1:
        return _by_status(diff, 1, "")
    # In a git repository the copy is a change that is not committed, which migrate asks about.
    dirty = contents.dirty_files([str(folder.path / AFTER)])
    done = stage.run(f"shardlift migrate {AFTER} --write{' --allow-dirty' if dirty else ''}")
    if done.status or b"shardlift" in (folder.path / AFTER).read_bytes():
        return Verdict(False, f"{AFTER} should be plain JAX now, and is not")
    return Verdict(True, f"{AFTER} is plain JAX, with nothing of shardlift in it")


def verify(stage: Stage) -> Verdict:
    """Both programs, compared."""
    done = stage.run(f"shardlift verify {BEFORE} {AFTER} -- --steps 20")
    return _by_status(done, 0, "Every output of every call is the same, bit by bit")


def cost(stage: Stage) -> Verdict:
    """Both programs, timed."""
    stage.say("In turns; the best of each counts.")
    before = f"shardlift run --quiet {BEFORE} --steps {STEPS_TIMED}"
    found = measure(stage, before, f"python {AFTER} --steps {STEPS_TIMED}")
    if isinstance(found, Done):
        return Verdict(False, f"a program ended with status {found.status}")
    if not stage.quiet:
        stage.console.print(Padding(table(*found), (1, 0, 1, 2)))
    ratio = found[1].step / found[0].step
    return Verdict(True, f"A step after costs {ratio:.2f} times the step before, here and now")


STEPS = {
    step.name: step
    for step in (
        Step("fail", "A program of 2022, on today's JAX", fail),
        Step("run", "It runs today, unmodified", run, writes=(RUN,)),
        Step("report", "What it did and cost", report, needs=("run",), writes=(PAGE,)),
        Step("check", "What is wrong in the source", check),
        Step("migrate", "The rewrite to jax.jit and jax.shard_map", migrate, writes=(AFTER,)),
        Step("verify", "The proof that nothing changed", verify, needs=("migrate",)),
        Step("cost", "What it costs, before and after", cost, needs=("migrate",)),
    )
}


def needed_for(step: Step, stage: Stage) -> list[Step]:
    """The step, after those whose files are not there yet."""
    first = [STEPS[name] for name in step.needs]
    return [*(one for one in first if not all(map(stage.folder.has, one.writes))), step]


def bundled() -> dict[str, bytes]:
    """The program that comes with the package; what says of it that no rule is ignored there."""
    project = b'[project]\nname = "spiral"\nversion = "1"\ndependencies = ["jax", "numpy"]\n'
    script = resources.files("shardlift.cli.demo").joinpath("program", "train.py").read_bytes()
    return {BEFORE: script, "before/pyproject.toml": project}


def _by_status(done: Done, wanted: int, good: str) -> Verdict:
    if done.status == wanted:
        return Verdict(True, good)
    return Verdict(False, f"exit status {done.status}, where {wanted} was to come")
