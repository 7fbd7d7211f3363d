"""The outcome of `verify` as JSON."""

from shardlift.cli.document import Item, document, item
from shardlift.verify.compare.verdicts import EQUAL, ProgramVerdict, SiteVerdict
from shardlift.verify.verdict_text import advice, basis, gap_lines, machine, sentence


def document_of(outcome: ProgramVerdict) -> str:
    """Sites that are equal are done; the others are left, each with its likely cause."""
    sides = (("before", outcome.before), ("after", outcome.after))
    failed = [item("failed", side.error, program=name) for name, side in sides if side.status]
    return document(
        "verify",
        outcome.status,
        done=[_item(site, basis(site)) for site in outcome.sites if site.verdict in EQUAL],
        left=[*failed, *(_left(site) for site in outcome.sites if site.verdict not in EQUAL)],
        advice=advice(outcome),
        **machine(outcome),
    )


def _left(site: SiteVerdict) -> Item:
    first = [sentence(site.first)] if site.first else []
    reasons = [*site.causes, *first, *gap_lines(site)] or [basis(site)]
    return _item(site, "; ".join(reasons))


def _item(site: SiteVerdict, message: str) -> Item:
    where = site.after or site.before
    assert where is not None
    code = site.verdict.value.replace(" ", "-")
    cell, line = where.cell or (None, where.line)
    in_cell: Item = {} if cell is None else {"cell": cell}
    return item(code, message, where.file, **in_cell, line=line, site=site.name)
