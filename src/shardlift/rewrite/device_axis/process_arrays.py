"""Programs of many processes on global arrays: each process brings its own part of every batch.

`jax.make_array_from_process_local_data` at the call makes one array of the parts. That is a change
of what flows between sites, so either all sites of a program are written like this, or none.

A pmapped function gives each process its own rows. A global array with the rows of all processes
must not be read by the program, which would see other rows, or none: rows that are returned may
only go back into a site. What is whole is read by `addressable_data`, since an operation on a
global array is run by all processes or hangs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlift.rewrite.device_axis.cells import CellRole, NodePlace, find
from shardlift.rewrite.device_axis.followed_program import FollowedProgram
from shardlift.rewrite.device_axis.global_sites import GlobalSite
from shardlift.rewrite.device_axis.mesh import Meshes, axis_of
from shardlift.rewrite.device_axis.reasons import Advice, Obstacle, ObstacleKind, obstacle
from shardlift.rewrite.device_axis.solve import AxisLayout, Decision
from shardlift.rewrite.names import jax_name
from shardlift.source.file import File
from shardlift.source.model import Edit, Kind, Match
from shardlift.source.scopes import end, position


def kept_apart(
    program: FollowedProgram, decision: Decision, meshes: Meshes
) -> dict[GlobalSite, Obstacle]:
    """The sites that keep one array per process, with the reason of the first that has one."""
    shared = [site for site in program.sites.values() if site.file.many_processes]
    shared = [site for site in shared if decision.is_changed(site)]
    for site in shared:
        if (why := _apart(decision, site, meshes)) is not None:
            about = {"name": site.name, "at": NodePlace(site.file, site.node), "why": why.text}
            return dict.fromkeys(shared, obstacle(ObstacleKind.OWN_ARRAYS, why.advice, **about))
    return {}


def _apart(decision: Decision, site: GlobalSite, meshes: Meshes) -> Obstacle | None:
    axes = [site.in_axis(k) for k in range(site.arguments or 0) if k not in site.static]
    if not _has_meshes(decision, site, meshes):
        return obstacle(ObstacleKind.OTHER_SCRIPTS, Advice.SET_UP_FIRST)
    if None in axes or site.out_axes != 0:
        return obstacle(ObstacleKind.AXES_OF_NONE, Advice.REPLICATE)
    if site.has_keywords or site.named:
        return obstacle(ObstacleKind.BY_KEYWORD, Advice.BY_POSITION)
    if any(isinstance(argument, ast.Starred) for _, call in site.calls for argument in call.args):
        return obstacle(ObstacleKind.BY_STAR, Advice.NAME_EACH)
    if any(layout is not AxisLayout.WHOLE for layout in decision.outputs(site)):
        return obstacle(ObstacleKind.RETURNS_ROWS, Advice.AVERAGE)
    roles = {p.role for k in _brought(decision, site) for p in find(site.given[k][0]).points}
    if CellRole.OUTPUT in roles:
        return obstacle(ObstacleKind.OWN_OUTPUT, Advice.OTHER_NAME)
    if CellRole.PREFETCH in roles:  # joining the parts would move them to the host and back
        return obstacle(ObstacleKind.ON_DEVICES, Advice.LET_JAX_PREFETCH)
    return None


def _has_meshes(decision: Decision, site: GlobalSite, meshes: Meshes) -> bool:
    """Whether the file of a site has its mesh in a variable, and all calls and copies."""
    whole = (k for k in site.given if decision.argument(site, k) is AxisLayout.WHOLE)
    made = [point.at.file for k in whole for point in find(site.given[k][0]).made]
    files = {*made, *(file for file, _ in site.calls)}
    is_variable = meshes.is_variable(site.file, axis_of(site)[0])
    return is_variable and files <= {site.file}


def _brought(decision: Decision, site: GlobalSite) -> list[int]:
    """The arguments that each process brings a part of."""
    return [k for k in sorted(site.given) if decision.argument(site, k) is not AxisLayout.WHOLE]


def join_parts(
    decision: Decision, site: GlobalSite, meshes: Meshes
) -> Iterator[tuple[File, Match]]:
    """The edits of the calls of a site: the parts of all processes become one array."""
    axis, written = axis_of(site)
    for file, call in site.calls:
        jax, imports = jax_name(file)
        over_axis = meshes.sharding(file, axis or "", written, split=True)
        sharding = meshes.named(file, axis or "", over_axis, f"over_{axis}")
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
