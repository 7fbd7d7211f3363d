"""The stored baseline, of ratios only, and what became slower than it.

Times are the machine's; ratios of contenders that ran in turns are the program's, and hold from one
machine to the next as far as the noise lets them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.harness import AGAIN, ROOT, Bench, Machine, Record

FOLDER = ROOT / "bench" / "baseline"
MARGIN = 0.10  # a ratio must grow by more than this, and by more than the noise of its row

Key = tuple[str, str, int, int, str]  # benchmark, case, devices, size, contender


class Entry(NamedTuple):
    """One ratio of ours, and how far apart equals were in its row."""

    ratio: float
    noise: float


class Slower(NamedTuple):
    """A ratio that grew."""

    key: Key
    before: float
    after: float
    margin: float

    def __str__(self) -> str:
        bench, case, devices, size, who = self.key
        where = f"{bench}: {who}, {case}, {size}" + (f", {devices} devices" if devices else "")
        return f"{where}: {self.before:.2f} -> {self.after:.2f} (noise lets {self.margin:.0%})"


def path_of(machine: Machine, folder: Path = FOLDER) -> Path:
    """A baseline for each platform and JAX release."""
    return folder / f"{machine['platform']}-{'.'.join(machine['jax'].split('.')[:2])}.json"


def entries(name: str, bench: Bench, records: Iterable[Record]) -> dict[Key, Entry]:
    """What is watched of the records of one benchmark."""
    return {
        (name, r["case"], r["devices"], r["size"], who): Entry(
            r["ratio"][who], round(abs(r["ratio"].get(AGAIN, 1.0) - 1), 3)
        )
        for r in records
        for who in bench.ours
        if who in r["ratio"]
    }


def save(machine: Machine, found: Mapping[Key, Entry], folder: Path = FOLDER) -> Path:
    """Replace the rows of the benchmarks that were measured; the others stay."""
    path = path_of(machine, folder)
    measured = {key[0] for key in found}
    kept = {k: e for k, e in load(machine, folder).items() if k[0] not in measured}
    rows = [
        dict(zip(_FIELDS, (*key, *entry), strict=True))
        for key, entry in sorted({**kept, **found}.items())
    ]
    folder.mkdir(parents=True, exist_ok=True)
    document: dict[str, Any] = {"environment": machine, "rows": rows}
    lines = ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in rows)
    head = json.dumps({"environment": document["environment"]}, ensure_ascii=False)[:-1]
    path.write_text(f'{head},\n "rows": [\n  {lines}\n ]}}\n', encoding="utf-8")
    return path


_FIELDS = ("bench", "case", "devices", "size", "contender", "ratio", "noise")


def load(machine: Machine, folder: Path = FOLDER) -> dict[Key, Entry]:
    """The baseline of this platform and JAX; empty if there is none."""
    path = path_of(machine, folder)
    if not path.exists():
        return {}
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    return {
        (r["bench"], r["case"], r["devices"], r["size"], r["contender"]): Entry(
            r["ratio"], r["noise"]
        )
        for r in rows
    }


def slower(before: Mapping[Key, Entry], after: Mapping[Key, Entry]) -> Iterator[Slower]:
    """What grew beyond the margin: the larger of 10 % and the noise of both rows, twice."""
    for key, new in after.items():
        old = before.get(key)
        if old is None:
            continue
        margin = max(MARGIN, 2 * (old.noise + new.noise))
        if new.ratio > old.ratio * (1 + margin):
            yield Slower(key, old.ratio, new.ratio, margin)


def better_of(one: Sequence[Record], two: Sequence[Record], bench: Bench) -> list[Record]:
    """Of two measurements of the same rows, the one in which ours did better, row by row."""
    again = {(r["case"], r["devices"], r["size"]): r for r in two}

    def cost(record: Record) -> float:
        return sum(record["ratio"][who] for who in bench.ours if who in record["ratio"])

    pairs = ((r, again.get((r["case"], r["devices"], r["size"]), r)) for r in one)
    return [min(pair, key=cost) for pair in pairs]
