"""``python -m bench [--quick] [--compare] [names…]``: measure, print tables, write the page."""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from collections.abc import Sequence

from bench import comparing, page
from bench.harness import Machine, Record, Row, in_fresh_process, this_machine


def main(arguments: Sequence[str] | None = None) -> int:
    """Run benchmarks; 1 if a row misses its target, or with --compare if one became slower."""
    options = parse(arguments)
    machine: Machine = in_fresh_process(this_machine, 1)
    if options.page:
        return publish(machine, options.save_baseline)
    print(f"# {page.describe(machine)}", flush=True)
    names = [n for n in options.names or page.BENCHES if _runs_on(n, machine)]
    if options.compare:
        return compare(names, machine, options.quick)
    found = {name: measure(name, machine, options.quick) for name in names}
    if options.quick:
        return 0
    for name, records in found.items():
        page.save(name, records)
    publish(machine, options.save_baseline)
    missed = sum(not page.in_target(n, r) for n, records in found.items() for r in records)
    print(f"\n{missed} rows miss their target" if missed else "\nevery row is in its target")
    return 1 if missed else 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    add = parser.add_argument
    add("names", nargs="*", help=f"some of {', '.join(page.BENCHES)}; default all")
    add("--quick", action="store_true", help="a glance, which writes nothing and exits with 0")
    add("--compare", action="store_true", help="say what became slower; writes nothing")
    add("--save-baseline", action="store_true", help="store what is measured as the baseline")
    add("--page", action="store_true", help="measure nothing: write from what there is")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(page.BENCHES):
        parser.error(f"no benchmark {', '.join(sorted(unknown))}; there are {list(page.BENCHES)}")
    return options


def _runs_on(name: str, machine: Machine) -> bool:
    return machine["platform"] == "cpu" or page.BENCHES[name].everywhere


def measure(name: str, machine: Machine, quick: bool) -> list[Record]:
    """One benchmark on every device count this machine is for, printed as it is done."""
    start = time.perf_counter()
    bench = page.BENCHES[name]
    # Several devices are virtual ones of a CPU: an accelerator is measured as it is.
    counts = bench.devices if machine["platform"] == "cpu" else (1,)
    records: list[Record] = []
    for devices in counts[:1] if quick else counts:
        rows: list[Row] = bench.run(devices, quick)
        records += [Record(**machine, devices=devices, **row) for row in rows]
    print(f"\n## {bench.title} ({time.perf_counter() - start:.0f} s)\n")
    print(page.table(name, records))
    print(f"\n{page.verdict(name, records)}", flush=True)
    return records


def compare(names: Sequence[str], machine: Machine, quick: bool) -> int:
    """Measure, and say what is slower than the baseline; what seems so is measured once more."""
    before = comparing.load(machine)
    if not before:
        print(f"no baseline: {comparing.path_of(machine)} is not there (--save-baseline)")
        return 2
    slower, compared = [], 0
    for name in names:
        bench = page.BENCHES[name]
        records = measure(name, machine, quick)
        if list(comparing.slower(before, comparing.entries(name, bench, records))):
            print(f"\n{name} seems slower: once more", flush=True)
            records = comparing.better_of(records, measure(name, machine, quick), bench)
        after = comparing.entries(name, bench, records)
        compared += len(after.keys() & before.keys())
        slower += list(comparing.slower(before, after))
    print(f"\n{compared} ratios compared with the baseline, {len(slower)} became slower")
    for one in slower:
        print(f"  {one}")
    if not compared:
        return 2
    return 1 if slower else 0


def save_baseline(machine: Machine) -> str:
    """From all that was measured with this JAX on this platform."""
    found: dict[comparing.Key, comparing.Entry] = {}
    for name, bench in page.BENCHES.items():
        for records in page.load(name):
            if (records[0]["platform"], records[0]["jax"]) == (machine["platform"], machine["jax"]):
                found |= comparing.entries(name, bench, records)
    return str(comparing.save(machine, found))


def publish(machine: Machine, baseline: bool) -> int:
    """Write figures and page, and the baseline if asked to, from what was measured."""
    if baseline:
        print(f"\nwrote {save_baseline(machine)}")
    _draw()
    page.write()
    return 0


def _draw() -> None:
    if importlib.util.find_spec("matplotlib") is None:
        print("\nno figures: matplotlib is not installed")
        return
    from bench import figures

    figures.draw_all()


if __name__ == "__main__":
    sys.exit(main())
