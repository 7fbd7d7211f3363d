"""The rows as one HTML page that works offline: totals, charts, and a table to sort and filter."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import resources
from typing import Any

from bench.projects.diff import new_findings
from shardlift.check.rules import all_rules
from shardlift.report.html import document
from shardlift.report.html.markup import Markup, join, tag
from shardlift.report.numbers import count

Row = Mapping[str, Any]
Bars = Sequence[tuple[str, float]]


def page(rows: Sequence[Row]) -> str:
    """The whole document."""
    years = [row["year"] for row in rows]
    title = f"How JAX code used pmap, {min(years)} to {max(years)}" if years else "No project"
    hint = "filter: a name, a year, library, many …"
    search = tag("input", type="search", placeholder=hint, aria_label="filter")
    shown = tag("span", count(len(rows), "project"), class_="quiet shown")
    main = join(
        tag("header", tag("p", "shardlift: public projects", class_="brand"), tag("h1", title)),
        tag("ul", *(tag("li", _prose(text)) for text in totals(rows)), class_="plain totals"),
        tag("div", *_charts(rows), class_="charts"),
        tag("h2", "The projects"),
        tag("p", search, shown, class_="filter"),
        tag("p", _prose(_LEGEND), class_="quiet"),
        tag("div", _table(rows), class_="scroll"),
        *(_left(rows, name) for name in ("fix", "migrate")),
        _failures(rows),
    )
    return document(title, main, _asset("page.js"), _asset("page.css"))


def _prose(text: str) -> Markup:
    """A sentence, with what is between backticks as code."""
    return join(*(tag("code", part) if k % 2 else part for k, part in enumerate(text.split("`"))))


def _asset(name: str) -> str:
    return resources.files("bench.projects").joinpath(name).read_text(encoding="utf-8")


def totals(rows: Sequence[Row]) -> Iterator[str]:
    """What the page says first."""
    done = [row for row in rows if not row["failure"]]
    sites = sum(row["sites"] for row in rows)
    yield f"{count(len(rows), 'project')}, {count(sites, 'place')} where a function is pmapped."
    yield from _health(done)
    yield from _imports(done)
    for name in ("fix", "migrate"):
        yield from _changed(done, name)
    yield from _started(done)
    if len(done) < len(rows):
        yield f"{len(rows) - len(done)} could not be measured to the end; the table has the reason."


def _health(rows: Sequence[Row]) -> Iterator[str]:
    broken = sum(bool(row["broken"]) for row in rows)
    slow = sum(bool(row["slow"]) and not row["broken"] for row in rows)
    yield (
        f"On today's JAX {broken} have something that is broken, {slow} more something that is "
        f"slow, {len(rows) - broken - slow} neither."
    )


def _imports(rows: Sequence[Row]) -> Iterator[str]:
    tried = [row["imports"] for row in rows if row["imports"] and row["imports"]["files"]]
    if tried:
        counts = {key: sum(_imports_all(one[key]) for one in tried) for key, _ in _IMPORTED}
        text = ", ".join(f"{counts[key]} {words}" for key, words in _IMPORTED)
        yield f"Modules of {len(tried)} were imported. All of them import in {text}."


def _changed(rows: Sequence[Row], name: str) -> Iterator[str]:
    diffs = [row[name] for row in rows if row[name]["places"]]
    if diffs:
        lines = statistics.median(diff["added"] + diff["helper_lines"] for diff in diffs)
        new = sum(new_findings(diff["findings"]) > 0 for diff in diffs)
        left = sum(sum(row[name]["left"].values()) for row in rows)
        yield (
            f"`{name}` changes {len(diffs)}, by {lines:.0f} lines in the median, helpers included; "
            f"{count(left, 'place')} left with a reason; new findings of the project's own "
            f"linters in {new}."
        )


def _started(rows: Sequence[Row]) -> Iterator[str]:
    programs = [(row["project"], one) for row in rows for one in _executed(row)]
    if programs:
        passed = {
            key: len({project for project, one in programs if one[key]["passed"]})
            for key, _ in _IMPORTED
        }
        text = ", ".join(f"{passed[key]} {words}" for key, words in _IMPORTED)
        projects = len({project for project, _ in programs})
        yield f"A program, or own tests that touch pmap, ran in {projects}: in {text}."
    verified = [one for _, one in programs if one["verified"]]
    if verified:
        same = sum(_is_identical(one) for one in verified)
        yield (
            f"`verify` compared {count(len(verified), 'program')} before and after `migrate`: "
            f"in {same} every site that ran is identical in every bit."
        )
    ratios = [one["speed"] for _, one in programs if one["speed"]]
    if ratios:
        yield (
            f"A step after `migrate` takes {statistics.median(ratios):.2f} times that of pmap in "
            f"the median of {len(ratios)}, from {min(ratios):.2f} to {max(ratios):.2f}."
        )


def _executed(row: Row) -> list[Row]:
    """The programs of which something could be executed."""
    programs = row["programs"] or []
    return [one for one in programs if any(one[key]["passed"] for key, _ in _IMPORTED)]


def _is_identical(program: Row) -> bool:
    """Whether all that ran is identical: the others are not reached.

    >>> _is_identical({"verified": "3 sites: 2 not reached, 1 identical. Not looked at: …"})
    True
    """
    counts = re.findall(r"[:,] \d+ ([a-z ]+)", _verdict(program))
    return "identical" in counts and not {*counts} - {"identical", "not reached"}


_IMPORTED = (
    ("plain", "as they are"),
    ("run", "under `shardlift run`"),
    ("fix", "after `fix`"),
    ("migrate", "after `migrate`"),
)


def _imports_all(results: Mapping[str, str]) -> bool:
    return not any(results.values())


def _charts(rows: Sequence[Row]) -> Iterator[Markup]:
    yield _chart("What is broken or slow, by projects", _by_rule(rows, ("broken", "slow")))
    options = Counter(option for row in rows for option in row["options"])
    yield _chart("Options of pmap, by projects that use them", options.most_common())
    yield _chart("Sites in a project", _grouped(row["sites"] for row in rows))
    yield _chart("Projects by year", sorted(Counter(str(row["year"]) for row in rows).items()))
    kinds = Counter(row["kind"] for row in rows)
    kinds["for many processes"] = sum(row["many_processes"] for row in rows)
    kinds["nested pmaps"] = sum(row["nested"] > 0 for row in rows)
    yield _chart("Where and how pmap is used", kinds.most_common())
    for name in ("fix", "migrate"):
        sizes = [r[name]["added"] + r[name]["helper_lines"] for r in rows if not r["failure"]]
        yield _chart(f"Lines that `{name}` adds, helpers included", _grouped(sizes))


def _by_rule(rows: Sequence[Row], levels: Sequence[str]) -> Bars:
    codes = Counter(code for row in rows for level in levels for code in row[level])
    rules = all_rules()
    return [(f"{code} {rules[code].name}", number) for code, number in codes.most_common(14)]


def _grouped(numbers: Iterable[int]) -> Bars:
    """How many numbers are in each group.

    >>> _grouped([0, 1, 4, 200])
    [('0', 1), ('1', 1), ('2 to 5', 1), ('over 100', 1)]
    """
    edges = (
        (0, "0"),
        (1, "1"),
        (5, "2 to 5"),
        (10, "6 to 10"),
        (20, "11 to 20"),
        (50, "21 to 50"),
        (100, "51 to 100"),
    )
    groups = dict.fromkeys([name for _, name in edges] + ["over 100"], 0)
    for number in numbers:
        groups[next((name for edge, name in edges if number <= edge), "over 100")] += 1
    return [(name, number) for name, number in groups.items() if number]


def _chart(title: str, bars: Bars) -> Markup:
    most = max((value for _, value in bars), default=1)
    lines = [
        tag(
            "li",
            tag("span", name, class_="name"),
            tag("span", class_="length", style=f"width:{100 * value / most:.1f}%"),
            tag("span", f"{value:g}", class_="value"),
        )
        for name, value in bars
    ]
    return tag("section", tag("h2", _prose(title)), tag("ul", *lines, class_="chart"))


_COLUMNS: tuple[tuple[str, Callable[[Row], str | int]], ...] = (
    ("project", lambda row: row["project"]),
    ("year", lambda row: row["year"]),
    ("kind", lambda row: row["kind"] + (", many" if row["many_processes"] else "")),
    ("sites", lambda row: row["sites"]),
    ("broken", lambda row: sum(row["broken"].values())),
    ("slow", lambda row: sum(row["slow"].values())),
    ("imports", lambda row: _imported(row)),
    ("fix +", lambda row: row["fix"]["added"]),
    ("helper", lambda row: row["fix"]["helper_lines"]),
    ("left", lambda row: sum(row["fix"]["left"].values())),
    ("migrate +", lambda row: row["migrate"]["added"]),
    ("helper", lambda row: row["migrate"]["helper_lines"]),
    ("left", lambda row: sum(row["migrate"]["left"].values())),
    ("new lint", lambda row: new_findings(row["migrate"]["findings"])),
    ("executed", lambda row: "; ".join(map(_passed, _executed(row))) or row["failure"]),
    ("verified", lambda row: "; ".join(filter(None, map(_verdict, _executed(row))))),
    ("speed", lambda row: "; ".join(f"{p['speed']:.2f}" for p in _executed(row) if p["speed"])),
)


_LEGEND = (
    "executed: what passes as it is / under `shardlift run` / after `fix` / after `migrate`. "
    "speed: the time of a step after `migrate`, as a multiple of that with pmap, from one run each."
)


def _verdict(program: Row) -> str:
    """What `verify` says, without what it did not look at."""
    return str(program["verified"]).partition(". ")[0].removesuffix(".")


def _passed(program: Row) -> str:
    """What passes: as it is, under shardlift, after fix, after migrate."""
    return "/".join(str(program[key]["passed"]) for key, _ in _IMPORTED)


def _imported(row: Row) -> str:
    """Modules that import: as they are, under run, after fix, after migrate."""
    if not row["imports"] or not row["imports"]["files"]:
        return ""
    counts = [sum(not why for why in row["imports"][key].values()) for key, _ in _IMPORTED]
    return "/".join(map(str, counts)) + f" of {len(row['imports']['files'])}"


def _table(rows: Sequence[Row]) -> Markup:
    columns = [(name, of) for name, of in _COLUMNS if any(of(row) != "" for row in rows)]
    cells = [[of(row) for _, of in columns] for row in rows]
    kinds = ["n" if isinstance(cell, int) else "t" for cell in cells[0]]
    head = [
        tag("th", tag("button", name, type="button"), scope="col", class_=kind)
        for (name, _), kind in zip(columns, kinds, strict=True)
    ]
    body = [
        tag("tr", *(tag("td", str(v), class_=kind) for v, kind in zip(line, kinds, strict=True)))
        for line in cells
    ]
    return tag("table", tag("thead", tag("tr", *head)), tag("tbody", *body), class_="projects")


def _left(rows: Sequence[Row], name: str) -> Markup:
    reasons = Counter[str]()
    for row in rows:
        reasons.update(row[name]["left"])
    items = [
        tag("li", tag("b", str(number)), f" {reason}") for reason, number in reasons.most_common(25)
    ]
    if not items:
        return Markup("")
    return tag(
        "details",
        tag("summary", _prose(f"What `{name}` left, and why: {sum(reasons.values())} places")),
        tag("ul", *items, class_="plain"),
    )


def _reasons(program: Row) -> dict[str, str]:
    """Why a program fails, and where: "as it is" is there if the reason is no rewrite's."""
    where: dict[str, list[str]] = {}
    for key, words in _IMPORTED:
        failed, error = program[key]["failed"], program[key]["error"]
        error = re.sub(r" \(/[^)]*\)", "", error)  # where a package is installed
        if failed or error:
            where.setdefault(f"{failed} failed. {error}", []).append(words)
    return {why: ", ".join(words) for why, words in where.items()}


def _failures(rows: Sequence[Row]) -> Markup:
    """What fails, with the last line that it printed."""
    items = [
        tag("li", tag("b", row["project"]), f" {program['name']}, ", _prose(where), f": {why}")
        for row in rows
        for program in row["programs"] or []
        for why, where in _reasons(program).items()
    ]
    if not items:
        return Markup("")
    summary = tag("summary", f"What failed when it was executed, and why: {len(items)}")
    return tag("details", summary, tag("ul", *items, class_="plain"))
