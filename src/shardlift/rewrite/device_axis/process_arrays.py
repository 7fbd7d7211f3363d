"""Programs of several processes on global arrays: each process brings its own part of a batch.

`jax.make_array_from_process_local_data` at the call makes one array of the parts. That changes what
flows between sites, so either all sites of a program are written like this, or none.

A pmapped function gives each process its own rows. A global array with the rows of all processes
must not be read by the program, which would see other rows, or none: only what is whole may be
returned. It is read by `addressable_data`, since an operation on a global array is run by all
processes or hangs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlift.rewrite.device_axis.cells import CellRole, NodePlace
from shardlift.rewrite.device_axis.followed_program import FollowedProgram
from shardlift.rewrite.device_axis.global_sites import GlobalSite
from shardlift.rewrite.device_axis.reasons import Obstacle, ObstacleKind, obstacle
from shardlift.rewrite.device_axis.site_text import Meshes, axis_of
from shardlift.rewrite.device_axis.solve import AxisLayout, Decision
from shardlift.rewrite.names import jax_name
from shardlift.source.file import File
from shardlift.source.model import Edit, Kind, Match
from shardlift.source.scopes import end, position

_ELSEWHERE = (
    "is not in one script with all that calls it",
    "call jax.distributed.initialize() at the top of the script that maps it",
)
_AXES = "has axes of None", "leave them out, and replicate the argument"
_ROWS = "returns one row per device", "return its lax.pmean, or let it stay one per device"
_ON_DEVICES = (
    "is given batches that are on devices already",
    "leave out prefetch_to_device: arrays are transferred while others are used",
)
_OUTPUT = (
    "may be given an output, or an array of this process",
    "give it under another name at the first call",
)


def kept_apart(
    program: FollowedProgram, decision: Decision, meshes: Meshes
) -> dict[GlobalSite, Obstacle]:
    """The sites that keep one array per process, with the reason of the first that has one."""
    sites = program.sites.values()
    shared = [site for site in sites if site.file.many_processes and decision.is_changed(site)]
    for site in shared:
        if (apart := _apart(decision, site, meshes)) is not None:
            at = NodePlace(site.file, site.node)
            about = {"name": site.name, "at": at, "why": apart[0], "advice": apart[1]}
            return dict.fromkeys(shared, obstacle(ObstacleKind.OWN_ARRAYS, **about))
    return {}


def _apart(decision: Decision, site: GlobalSite, meshes: Meshes) -> tuple[str, str] | None:
    """Why a site keeps one array per process, and what to do about it."""
    brought = _brought(decision, site)
    whole = [site.given[k][0].root() for k in site.given if k not in brought]
    users = {call.file for call in site.calls} | {m.at.file for root in whole for m in root.made}
    if not meshes.is_variable(site.file) or users != {site.file}:
        return _ELSEWHERE
    if site.out_axes != 0 or any(site.in_axis(k) is None for k in range(site.arguments or 0)):
        return _AXES
    if any("prefetch_to_device" in call.file.source.text for call in site.calls):
        return _ON_DEVICES  # joining the parts would move them to the host and back
    if any(layout is not AxisLayout.WHOLE for layout in decision.outputs(site)):
        return _ROWS
    points = [point for k in brought for point in site.given[k][0].root().points]
    return _OUTPUT if any(point.role is CellRole.OUTPUT for point in points) else None


def _brought(decision: Decision, site: GlobalSite) -> list[int]:
    """The arguments that each process brings a part of."""
    return [k for k in sorted(site.given) if decision.argument(site, k) is not AxisLayout.WHOLE]


def join_parts(
    decision: Decision, site: GlobalSite, meshes: Meshes
) -> Iterator[tuple[File, Match]]:
    """The edits of the calls of a site: the parts of all processes become one array."""
    axis, written = axis_of(site)
    brought = _brought(decision, site)
    firsts = [number for number in brought if number - 1 not in brought]
    lasts = [number for number in brought if number + 1 not in brought]
    for place in site.calls:
        file, call = place.file, place.node
        assert isinstance(call, ast.Call)
        jax, imports = jax_name(file)
        sharding, _ = meshes.sharding(file, axis, written, split=True)
        opening = f"{jax}.make_array_from_process_local_data({sharding}, "
        for first, last in zip(firsts, lasts, strict=True):  # arguments that follow each other
            texts = (f"*{opening}(", "))") if last > first else (opening, ")")
            at = position(call.args[first]), end(call.args[last])
            spans = [file.stretch(*where, *where) for where in at]
            edits = tuple(map(Edit, spans, texts))
            yield file, Match(call.args[first], "", edits, imports, kind=Kind.DEVICE_AXIS)
