"""From the files in ``results`` to tables and to docs/benchmarks.md."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from bench import (
    check_files,
    composed,
    dispatch,
    first_call,
    memory,
    placing_page,
    processes,
    reading,
)
from bench.harness import AGAIN, RESULTS, ROOT, Bench, Machine, Record

BENCHES: dict[str, Bench] = {
    "dispatch": dispatch.BENCH,
    "processes": processes.BENCH,
    "composed": composed.BENCH,
    "first_call": first_call.BENCH,
    "memory": memory.BENCH,
    "reading": reading.BENCH,
    "placing": placing_page.BENCH,
    "placing_memory": placing_page.MEMORY,
    "check": check_files.BENCH,
}
# The figures of a section: file in docs/figures, and what is seen on it.
FIGURES: dict[str, dict[str, str]] = {
    "dispatch": {
        "dispatch": "Time of a call over that of bare jit(shard_map), against the number of leaves",
        "dispatch_devices": "The same against the number of devices",
    },
    "processes": {"dispatch_processes": "Time of a call in many processes, against leaves"},
    "reading": {"reading": "Time of x[0], against the number of devices"},
    "placing": {"placing": "Time to place an array on 8 devices, against its size"},
    "check": {"check": "Time of a check, against the number of files"},
}
PAGE = ROOT / "docs" / "benchmarks.md"

INTRO = """\
# Benchmarks

What shardlift costs, beside what one would use in its place: `shardlift.pmap` beside bare
`jax.jit(jax.shard_map(...))`, which is the limit of what can be built on public JAX, and beside
`jax.pmap`. All contenders of a case ran in turn in one run; what counts is their ratio, not the
time, which is the machine's. The limit ran twice where there is a column *noise*: it is the ratio
of the limit to itself.

`python -m bench` measures again on the machine at hand and writes this page and its figures;
`python -m bench --compare` says what became slower than the stored baseline, beyond the noise.
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
    bench, unit = BENCHES[name], records[0]["unit"]
    names = [who for who in bench.contenders if who in records[0]["best"]]
    rest = [*names[1:], *([AGAIN] if AGAIN in records[0]["ratio"] else [])]
    told = records[0]["devices"] > 0
    head = [
        *(["devices"] if told else []),
        "case",
        bench.size,
        *(f"{who}, {unit}" for who in names),
    ]
    head += ["noise" if who == AGAIN else f"{who} / {names[0]}" for who in rest] + ["in target"]
    lines = [head, [{"case": "---", "in target": "---"}.get(cell, "---:") for cell in head]]
    for record in records:
        cells = [*([str(record["devices"])] if told else []), record["case"], str(record["size"])]
        cells += [f"{record['best'][who]:.{1 if unit != 'x result' else 2}f}" for who in names]
        cells += [f"{record['ratio'][who]:.2f}" for who in rest]
        lines.append([*cells, "yes" if in_target(name, record) else "**no**"])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def in_target(name: str, record: Record) -> bool:
    """Does the record meet the target of its benchmark?"""
    return BENCHES[name].met(record, record["devices"])


def verdict(name: str, records: Iterable[Record]) -> str:
    """How many rows are in the target, in words."""
    inside = [in_target(name, record) for record in records]
    return f"{sum(inside)} of {len(inside)} rows in the target: {BENCHES[name].target}."


def write() -> None:
    """Write the page from all results there are."""
    parts = [INTRO]
    for name, bench in BENCHES.items():
        parts.append(f"\n## {bench.title}\n\n{bench.about}\n\nTarget: {bench.target}.\n")
        for figure, seen in FIGURES.get(name, {}).items():
            if (PAGE.parent / "figures" / f"{figure}.png").exists():
                parts.append(f"\n![{seen}](figures/{figure}.png)\n")
        results = load(name)
        for records in results:
            shown = f"\n### {describe(records[0])}\n\n{table(name, records)}\n"
            parts.append(f"{shown}\n{verdict(name, records)}\n")
        if not results:
            parts.append("\nNot measured yet.\n")
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text("".join(parts), encoding="utf-8")
