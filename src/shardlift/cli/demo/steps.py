"""The steps of the demo, in order. Each can run alone.

No result is stored beforehand: a step runs the real commands and judges what they did.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import metadata, resources
from typing import NamedTuple

from rich.padding import Padding

from shardlift.cli import contents
from shardlift.cli.children import Done
from shardlift.cli.demo.cost import STEPS as STEPS_TIMED
from shardlift.cli.demo.cost import measure, table
from shardlift.cli.demo.stage import DEVICES, Stage, fold_additions

__all__ = ["AFTER", "BEFORE", "STEPS", "Step", "Verdict", "bundled", "needed_for"]

BEFORE, AFTER = "before/train.py", "after/train.py"
RUN, PAGE = "run.json", "report.html"


class Verdict(NamedTuple):
    """The result of a step."""

    good: bool
    text: str


class Step(NamedTuple):
    """One step: its name, its title, the steps that it needs and the files that it writes."""

    name: str
    title: str
    play: Callable[[Stage], Verdict]
    needs: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()


def fail(stage: Stage) -> Verdict:
    """Run the unmodified program on today's JAX."""
    lines = bundled()[BEFORE].count(b"\n")
    stage.say(f"{BEFORE}, {lines} lines, trains a classifier on all devices with jax.pmap.")
    done = stage.run(f"python {BEFORE}", shown=stage.verbose)
    if not stage.verbose:
        stage.show("\n".join(done.output.splitlines()[-3:]))
    last_line = done.output.rstrip().rpartition("\n")[2]
    jax = f"JAX {metadata.version('jax')}"
    if done.status == 0:
        return Verdict(False, f"{jax} runs it, although it should fail")
    broken = last_line.startswith(("ModuleNotFoundError", "ImportError", "AttributeError"))
    return Verdict(broken, f"{jax} no longer runs it")


def run(stage: Stage) -> Verdict:
    """Run the unmodified program with the removed names restored."""
    done = stage.run(f"shardlift run --devices {DEVICES} --record {RUN} {BEFORE}")
    return _by_status(done, 0, f"It runs unmodified; {RUN} contains what every pmap did")


def report(stage: Stage) -> Verdict:
    """Show what the run did and cost."""
    done = stage.run(f"shardlift report {RUN} --html {PAGE}")
    if done.status not in (0, 1) or not stage.folder.has(PAGE):
        return _by_status(done, 0, "")
    return Verdict(True, f"{PAGE} shows everything on one page, with a timeline")


def check(stage: Stage) -> Verdict:
    """Find what is wrong in the source."""
    done = stage.run(f"shardlift check {BEFORE}")
    return _by_status(done, 1, "All that has to change is listed, and nothing was executed")


def migrate(stage: Stage) -> Verdict:
    """Rewrite a copy of the program."""
    folder = stage.folder
    folder.put(AFTER, bundled()[BEFORE])
    stage.say(f"{AFTER} is a copy of {BEFORE}.")
    diff = stage.run(f"shardlift migrate {AFTER}", shown=False)
    stage.show(diff.output if stage.verbose else fold_additions(diff.output))
    if diff.status != 1:
        return _by_status(diff, 1, "")
    # In a git repository the copy is an uncommitted change, which migrate refuses to overwrite.
    dirty = contents.dirty_files([str(folder.path / AFTER)])
    done = stage.run(f"shardlift migrate {AFTER} --write{' --allow-dirty' if dirty else ''}")
    if done.status or b"shardlift" in (folder.path / AFTER).read_bytes():
        return Verdict(False, f"{AFTER} should be plain JAX now, but is not")
    return Verdict(True, f"{AFTER} is plain JAX and does not import shardlift")


def verify(stage: Stage) -> Verdict:
    """Compare both programs."""
    done = stage.run(f"shardlift verify {BEFORE} {AFTER} -- --steps 20")
    return _by_status(done, 0, "Every output of every call is bit-identical")


def cost(stage: Stage) -> Verdict:
    """Time both programs."""
    stage.say("Both programs run in turns; the best time of each counts.")
    before = f"shardlift run --quiet {BEFORE} --steps {STEPS_TIMED}"
    costs = measure(stage, before, f"python {AFTER} --steps {STEPS_TIMED}")
    if isinstance(costs, Done):
        return Verdict(False, f"a program ended with status {costs.status}")
    if not stage.quiet:
        stage.console.print(Padding(table(*costs), (1, 0, 1, 2)))
    ratio = costs[1].step / costs[0].step
    return Verdict(True, f"A step takes {ratio:.2f} times as long as before the migration")


def to_global(stage: Stage) -> Verdict:
    """Show what a person would write: no device axis, and no helper."""
    stage.say("With the facts of the run, arrays lose the axis that only pmap needed.")
    done = stage.run(f"shardlift migrate {BEFORE} --to global --facts {RUN}")
    if done.status != 1:
        return _by_status(done, 1, "")
    helpers = re.findall(r"^\+def (\w+)", done.output, re.MULTILINE)
    if helpers or "jax.shard_map" not in done.output:
        return Verdict(False, f"it should be plain jax.shard_map, without {', '.join(helpers)}")
    return Verdict(True, "Plain jax.shard_map, and what replicated and sharded is gone")


STEPS = {
    step.name: step
    for step in (
        Step("fail", "A program from 2022 on today's JAX", fail),
        Step("run", "The same program with `shardlift run`", run, writes=(RUN,)),
        Step("report", "What it did and cost", report, needs=("run",), writes=(PAGE,)),
        Step("check", "What is wrong in the source", check),
        Step("migrate", "Rewrite to jax.jit and jax.shard_map", migrate, writes=(AFTER,)),
        Step("verify", "Proof that the numbers are the same", verify, needs=("migrate",)),
        Step("cost", "What it costs before and after", cost, needs=("migrate",)),
        Step("global", "What a person would write", to_global, needs=("run",)),
    )
}


def needed_for(step: Step, stage: Stage) -> list[Step]:
    """The step, preceded by the steps that write files it needs."""
    needed = [STEPS[name] for name in step.needs]
    return [*(each for each in needed if not all(map(stage.folder.has, each.writes))), step]


def bundled() -> dict[str, bytes]:
    """The program of the demo, with a pyproject.toml so that no outer configuration applies."""
    project = b'[project]\nname = "spiral"\nversion = "1"\ndependencies = ["jax", "numpy"]\n'
    script = resources.files("shardlift.cli.demo").joinpath("program", "train.py").read_bytes()
    return {BEFORE: script, "before/pyproject.toml": project}


def _by_status(done: Done, wanted: int, good: str) -> Verdict:
    if done.status == wanted:
        return Verdict(True, good)
    return Verdict(False, f"exit status {done.status} instead of {wanted}")
