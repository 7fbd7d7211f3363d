"""The pages of the rules: one a rule, as `shardlift rule` prints it, and a list by family."""

from __future__ import annotations

import re
from pathlib import Path

from shardlift.check.page import page
from shardlift.check.rules import all_rules
from shardlift.cli.rule import FAMILIES, use_instead
from shardlift.source.model import Rule

ERRORS = Path(__file__).parent.parent / "errors"


def pages() -> dict[str, str]:
    """Text by file name."""
    rules = all_rules()
    about = _errors_by_rule()
    made = {f"{code}.md": _page(rule, about.get(code, [])) for code, rule in rules.items()}
    return {"index.md": _index(rules), **made}


def _page(rule: Rule, errors: list[tuple[str, str]]) -> str:
    # In the sidebar of every page they would take most of the time of a build.
    text = "---\norphan: true\n---\n\n" + page(rule, use_instead(rule))
    if errors:
        listed = "\n".join(f"- [{title}](../errors/{file})" for file, title in errors)
        text = text.replace("\nReference: ", f"\nSeen as:\n\n{listed}\n\nReference: ", 1)
    return text


def _errors_by_rule() -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    for path in sorted(ERRORS.glob("*.md")):
        text = path.read_text(encoding="utf-8")
        if path.stem != "index":
            for code in sorted(set(re.findall(r"rules/(SL\d{3})\.md", text))):
                found.setdefault(code, []).append((path.name, text.split("\n", 1)[0].lstrip("# ")))
    return found


def _index(rules: dict[str, Rule]) -> str:
    parts = [
        "# Rules",
        "What `shardlift check` looks for. `shardlift rule SL501` prints a page of these in the "
        "terminal. What the levels mean: [shardlift check](../check.md#what-a-finding-says).",
    ]
    for family, title in FAMILIES.items():
        rows = [_row(rule) for rule in rules.values() if rule.code[2] == family]
        table = ["| rule | level | what |", "|---|---|---|", *rows]
        parts += [f"## {family}xx: {title}", "\n".join(table)]
    return "\n\n".join(parts) + "\n"


def _row(rule: Rule) -> str:
    summary = rule.summary.replace("|", "\\|")
    return f"| [{rule.code}]({rule.code}.md) | {rule.level.value} | {summary} |"
