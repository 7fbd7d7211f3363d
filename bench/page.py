"""From the files in ``results`` to tables and to docs/benchmarks.md."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from types import ModuleType

from bench import composed, dispatch, first_call, memory
from bench.harness import AGAIN, JAX, LIMIT, OURS, RESULTS, ROOT, Machine, Record

BENCHES: dict[str, ModuleType] = {
    "dispatch": dispatch,
    "composed": composed,
    "first_call": first_call,
    "memory": memory,
}
PAGE = ROOT / "docs" / "benchmarks.md"

INTRO = """\
# Benchmarks

What `shardlift.pmap` costs, beside bare `jax.jit(jax.shard_map(...))` with its shardings given,
which is the limit of what can be built on public JAX, and beside `jax.pmap`. All contenders of a
case ran in turn in one run; what counts is their ratio, not the time, which is the machine's.
The limit ran twice where there is a column *noise*: it is the ratio of the limit to itself.

Written by `python -m bench`, which measures again on the machine at hand.
"""
FIGURE = """
![Time of a call over that of bare jit(shard_map), against the number of leaves]\
(figures/dispatch.png)
"""


def load(name: str) -> list[list[Record]]:
    """The results of one benchmark, a list for each platform and JAX version."""
    return [json.loads(path.read_text()) for path in sorted(RESULTS.glob(f"{name}-*.json"))]


def save(name: str, records: Sequence[Record]) -> None:
    """Replace what is known of this benchmark on this platform and JAX version."""
    first = records[0]
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}-{first['platform']}-{first['jax']}.json"
    text = json.dumps(records, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def describe(machine: Machine) -> str:
    """The machine in general words."""
    kind = machine["device_kind"]
    where = f"{machine['cores']} CPU cores" if machine["platform"] == "cpu" else f"one {kind}"
    return f"{where}, jax {machine['jax']}"


def table(name: str, records: Sequence[Record]) -> str:
    """The records of one benchmark as a Markdown table."""
    unit, noise = records[0]["unit"], AGAIN in records[0]["ratio"]
    head = ["devices", "case", "leaves", *(f"{who}, {unit}" for who in (LIMIT, OURS, JAX))]
    head += [f"{OURS} / limit", f"{JAX} / limit", *(["noise"] if noise else []), "in target"]
    lines = [head, ["---:", "---", *["---:"] * (len(head) - 3), "---"]]
    for record in records:
        best, ratio = record["best"], record["ratio"]
        cells = [str(record["devices"]), record["case"], str(record["leaves"])]
        cells += [f"{best[who]:.1f}" for who in (LIMIT, OURS, JAX)]
        cells += [f"{ratio[who]:.2f}" for who in (OURS, JAX, *([AGAIN] if noise else []))]
        lines.append([*cells, "yes" if in_target(name, record) else "**no**"])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def in_target(name: str, record: Record) -> bool:
    """Does the record meet the target of its benchmark?"""
    return bool(BENCHES[name].met(record, record["devices"]))


def verdict(name: str, records: Iterable[Record]) -> str:
    """How many rows are in the target, in words."""
    inside = [in_target(name, record) for record in records]
    return f"{sum(inside)} of {len(inside)} rows in the target: {BENCHES[name].TARGET}."


def write() -> None:
    """Write the page from all results there are."""
    parts = [INTRO]
    for name, bench in BENCHES.items():
        parts.append(f"\n## {bench.TITLE}\n\n{bench.ABOUT}\n\nTarget: {bench.TARGET}.\n")
        if name == "dispatch" and (PAGE.parent / "figures" / "dispatch.png").exists():
            parts.append(FIGURE)
        results = load(name)
        for records in results:
            shown = f"\n### {describe(records[0])}\n\n{table(name, records)}\n"
            parts.append(f"{shown}\n{verdict(name, records)}\n")
        if not results:
            parts.append("\nNot measured yet.\n")
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text("".join(parts), encoding="utf-8")
