"""``python -m bench [--quick] [names…]``: measure, print tables, write docs/benchmarks.md."""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time

from bench import page
from bench.harness import Machine, Record, Row, in_fresh_process, this_machine


def main() -> int:
    """Run benchmarks; 1 if a row misses its target."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"some of {', '.join(page.BENCHES)}; default all")
    parser.add_argument(
        "--quick", action="store_true", help="a glance, which writes nothing and exits with 0"
    )
    options = parser.parse_args()
    if unknown := set(options.names) - set(page.BENCHES):
        parser.error(f"no benchmark {', '.join(sorted(unknown))}; there are {list(page.BENCHES)}")

    machine: Machine = in_fresh_process(this_machine, 1)
    print(f"# {page.describe(machine)}", flush=True)
    missed = 0
    for name in options.names or page.BENCHES:
        records = measure(name, machine, options.quick)
        missed += sum(not page.in_target(name, record) for record in records)
        if not options.quick:
            page.save(name, records)
    if not options.quick:
        _draw()
        page.write()
    print(f"\n{missed} rows miss their target" if missed else "\nevery row is in its target")
    return 1 if missed and not options.quick else 0


def measure(name: str, machine: Machine, quick: bool) -> list[Record]:
    """One benchmark on every device count this machine is for, printed as it is done."""
    start = time.perf_counter()
    # Several devices are virtual ones of a CPU: an accelerator is measured as it is.
    counts = (1, 8) if machine["platform"] == "cpu" else (1,)
    bench = page.BENCHES[name]
    records: list[Record] = []
    for devices in counts:
        rows: list[Row] = bench.run(devices, quick)
        records += [Record(**machine, devices=devices, **row) for row in rows]
    print(f"\n## {bench.TITLE} ({time.perf_counter() - start:.0f} s)\n")
    print(page.table(name, records))
    print(f"\n{page.verdict(name, records)}", flush=True)
    return records


def _draw() -> None:
    if importlib.util.find_spec("matplotlib") is None:
        print("\nno figure: matplotlib is not installed")
    elif page.load("dispatch"):
        from bench import plot

        plot.draw()


if __name__ == "__main__":
    sys.exit(main())
