"""A plan as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from shardlift.report.numbers import amount, count, list_names, seconds
from shardlift.report.scaling import Link, Network, SitePlan, Transfer, kind_of, mesh_of

__all__ = ["as_text", "as_tree"]

_WORTH = 2**10  # bytes of a replica that is named


def as_text(plans: Sequence[SitePlan], network: Network, link: Link | None) -> Iterator[str]:
    """One block of lines per site."""
    hosts = (
        f", {_with_commas(network.hosts)} hosts of {network.per_host}"
        if network.per_host > 1
        else ""
    )
    devices = f"{_with_commas(network.devices)} devices{hosts}"
    yield f"{devices}; each works on a block of the recorded size"
    for plan in plans:
        yield ""
        yield from _site(plan, network, link)


def _site(plan: SitePlan, network: Network, link: Link | None) -> Iterator[str]:
    site = plan.site
    before = mesh_of(site)
    axes = ", ".join(f"{name} {before[name]} -> {size}" for name, size in plan.mesh.items())
    yield f"{site.function}  {site.file}:{site.line}  {site.kind} over {axes}"
    reused = f", of which {amount(plan.reused)} reuse donated arguments" if plan.reused else ""
    yield (
        f"  each device holds {amount(plan.arguments)} of arguments and {amount(plan.outputs)} of "
        f"outputs{reused}"
    )
    if not plan.transfers:
        yield "  no collectives were recorded"
    recorded = {kind_of(transfer.collective): transfer for transfer in plan.before}
    for transfer in plan.transfers:
        old = recorded.get(kind_of(transfer.collective))
        yield f"  {_transfer(old, transfer, network, link)}"
    if plan.transfers:
        yield f"  each device sends {amount(sum(t.sent for t in plan.transfers))} per call"
    yield from _replicas(plan, network)
    yield from _growth(plan, network)
    if plan.lowered is not None and plan.lowered.error:
        yield f"  it cannot be lowered for this mesh: {plan.lowered.error}"
    elif plan.lowered is not None:
        yield "  lowered for this mesh"


def _transfer(old: Transfer | None, new: Transfer, network: Network, link: Link | None) -> str:
    collective = new.collective
    exact = "" if collective.exact else " at least"
    text = (
        f"{count(collective.count, collective.kind)} over {', '.join(collective.axes)}:{exact} "
        f"{amount(collective.nbytes)} of operands; each device sends {amount(new.sent)} per call"
    )
    if old is not None:
        text += f" ({amount(old.sent)} on {old.group})"
    if network.per_host > 1:
        text += f", each host {amount(new.sent_by_host(network.per_host))}"
    if link is not None:
        ring, tree = new.seconds(link)
        text += f"; {seconds(ring)} as a ring, {seconds(tree)} as a tree"
    return text


def _replicas(plan: SitePlan, network: Network) -> Iterator[str]:
    worth = [replica for replica in plan.replicas if replica.nbytes >= _WORTH]
    if not worth:
        return
    nbytes = sum(replica.nbytes for replica in worth)
    names = list_names(replica.path for replica in worth)
    split = sum(max(1, replica.nbytes / replica.copies) for replica in worth)
    copies = max(replica.copies for replica in worth)
    yield (
        f"  the same on {_with_commas(copies)} devices: {names}, {amount(nbytes)} on each, "
        f"{amount(nbytes * network.devices)} in all; split, it would be {amount(split)} on each"
    )


def _growth(plan: SitePlan, network: Network) -> Iterator[str]:
    linear = [transfer for transfer in plan.transfers if transfer.is_linear]
    if linear:
        kinds = list_names(dict.fromkeys(transfer.collective.kind for transfer in linear))
        result = sum(transfer.result for transfer in linear)
        yield (
            f"  grows with the devices: {kinds}, whose results take {amount(result)} on each device"
        )
    if plan.growing:
        yield f"  grows on each device: {list_names(plan.growing)}"
    if plan.assumed:
        yield (
            "  taken to stay as recorded, but may depend on the devices: "
            f"{list_names(plan.assumed)}; record with --plan-for {network.devices} to know, or "
            "pass --also with a capture of another number of devices"
        )


def _with_commas(number: int) -> str:
    return f"{number:,}"


def as_tree(plans: Sequence[SitePlan], network: Network, link: Link | None) -> dict[str, Any]:
    """The same numbers for programs."""
    return {
        "devices": network.devices,
        "per_host": network.per_host,
        "sites": [_site_tree(plan, network, link) for plan in plans],
    }


def _site_tree(plan: SitePlan, network: Network, link: Link | None) -> dict[str, Any]:
    site = plan.site
    return {
        "file": site.file,
        "line": site.line,
        "function": site.function,
        "mesh": dict(plan.mesh),
        "arguments": plan.arguments,
        "outputs": plan.outputs,
        "reused": plan.reused,
        "lowered": plan.lowered is not None and not plan.lowered.error,
        "replicated": {replica.path: replica.nbytes for replica in plan.replicas},
        "collectives": [_transfer_tree(t, network, link) for t in plan.transfers],
    }


def _transfer_tree(transfer: Transfer, network: Network, link: Link | None) -> dict[str, Any]:
    collective = transfer.collective
    tree: dict[str, Any] = {
        "kind": collective.kind,
        "axes": list(collective.axes),
        "count": collective.count,
        "operands": collective.nbytes,
        "exact": collective.exact,
        "group": transfer.group,
        "sent": transfer.sent,
        "sent_by_host": transfer.sent_by_host(network.per_host),
        "grows": transfer.is_linear,
    }
    if link is not None:
        tree["ring_seconds"], tree["tree_seconds"] = transfer.seconds(link)
    return tree
