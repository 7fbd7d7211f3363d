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

from shardlift.rewrite.device_axis.cells import CellRole, NodePlace, find
from shardlift.rewrite.device_axis.followed_program import FollowedProgram
from shardlift.rewrite.device_axis.global_sites import GlobalSite
from shardlift.rewrite.device_axis.mesh import Meshes, axis_of
from shardlift.rewrite.device_axis.reasons import Obstacle, ObstacleKind, obstacle
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
    axes = [site.in_axis(k) for k in range(site.arguments or 0)]
    if not _has_meshes(decision, site, meshes):
        return _ELSEWHERE
    if None in axes or site.out_axes != 0:
        return _AXES
    if any("prefetch_to_device" in call.file.source.text for call in site.calls):
        return _ON_DEVICES  # joining the parts would move them to the host and back
    if any(layout is not AxisLayout.WHOLE for layout in decision.outputs(site)):
        return _ROWS
    brought = (find(site.given[k][0]) for k in _brought(decision, site))
    is_output = any(point.role is CellRole.OUTPUT for root in brought for point in root.points)
    return _OUTPUT if is_output else None


def _has_meshes(decision: Decision, site: GlobalSite, meshes: Meshes) -> bool:
    """Whether the file of a site has its mesh in a variable, and all calls and copies."""
    whole = (k for k in site.given if decision.argument(site, k) is AxisLayout.WHOLE)
    made = [point.at.file for k in whole for point in find(site.given[k][0]).made]
    is_variable = meshes.is_variable(site.file)
    return is_variable and {*made, *(call.file for call in site.calls)} <= {site.file}


def _brought(decision: Decision, site: GlobalSite) -> list[int]:
    """The arguments that each process brings a part of."""
    return [k for k in sorted(site.given) if decision.argument(site, k) is not AxisLayout.WHOLE]


def join_parts(
    decision: Decision, site: GlobalSite, meshes: Meshes
) -> Iterator[tuple[File, Match]]:
    """The edits of the calls of a site: the parts of all processes become one array."""
    axis, written = axis_of(site)
    for place in site.calls:
        file, call = place.file, place.node
        assert isinstance(call, ast.Call)
        jax, imports = jax_name(file)
        sharding = meshes.sharding(file, axis, written, split=True)
        for first, last in _runs(_brought(decision, site)):
            opening = f"{jax}.make_array_from_process_local_data({sharding}, "
            several = last > first
            edits = (
                _insert(file, position(call.args[first]), f"*{opening}(" if several else opening),
                _insert(file, end(call.args[last]), "))" if several else ")"),
            )
            yield file, Match(call.args[first], "", edits, imports, kind=Kind.DEVICE_AXIS)


def _runs(numbers: list[int]) -> list[tuple[int, int]]:
    """Numbers that follow each other, as pairs of the first and the last."""
    firsts = [number for number in numbers if number - 1 not in numbers]
    lasts = [number for number in numbers if number + 1 not in numbers]
    return list(zip(firsts, lasts, strict=True))


def _insert(file: File, at: tuple[int, int], text: str) -> Edit:
    return Edit(file.stretch(*at, *at), text)
