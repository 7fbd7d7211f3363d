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
from enum import Enum

from shardlift.migrate.device_axis.cells import Place, Role, find
from shardlift.migrate.device_axis.mesh import Meshes, axis_of
from shardlift.migrate.device_axis.program import Program
from shardlift.migrate.device_axis.sites import Site
from shardlift.migrate.device_axis.solve import Decision, Layout
from shardlift.migrate.names import jax_name
from shardlift.source.file import File
from shardlift.source.model import Edit, Kind, Match
from shardlift.source.scopes import end, position


class Apart(Enum):
    """Why the sites of a program keep the arrays of each process apart."""

    NO_MESH = "it is not in a script that sets JAX up first, with all that calls it"
    UNMAPPED = "in_axes or out_axes are None"
    UNPACKED = "it is called with unpacked arguments"
    READ = "an output of it keeps one row per device, and is used elsewhere"
    FED_BACK = "an argument of it may be an output, or an array of this process"
    KEYWORDS = "it is called with keyword arguments"


def find_apart(program: Program, decision: Decision, meshes: Meshes) -> tuple[Site, Apart] | None:
    """The first site that keeps the arrays of each process apart; None if no site does."""
    for site in program.sites.values():
        if decision.is_changed(site) and (why := _apart(decision, site, meshes)) is not None:
            return site, why
    return None


def _apart(decision: Decision, site: Site, meshes: Meshes) -> Apart | None:
    axes = [site.in_axis(k) for k in range(site.arguments or 0) if k not in site.static]
    if not _has_meshes(decision, site, meshes):
        return Apart.NO_MESH
    if None in axes or site.out_axes != 0:
        return Apart.UNMAPPED
    if site.has_keywords:
        return Apart.KEYWORDS
    if any(isinstance(argument, ast.Starred) for _, call in site.calls for argument in call.args):
        return Apart.UNPACKED
    if any(layout is not Layout.WHOLE for layout in decision.outputs(site)):
        return Apart.READ
    made = (point for k in _brought(decision, site) for point in find(site.given[k][0]).made)
    return Apart.FED_BACK if any(point.role is Role.OUTPUT for point in made) else None


def _has_meshes(decision: Decision, site: Site, meshes: Meshes) -> bool:
    """Whether the file of a site has its mesh in a variable, and all calls and copies."""
    whole = (k for k in site.given if decision.argument(site, k) is Layout.WHOLE)
    made = [point.at.file for k in whole for point in find(site.given[k][0]).made]
    files = {*made, *(file for file, _ in site.calls)}
    is_variable = meshes.is_variable(site.file, axis_of(site, meshes)[0])
    return is_variable and files <= {site.file}


def _brought(decision: Decision, site: Site) -> list[int]:
    """The arguments of which each process has a part."""
    return [k for k in sorted(site.given) if decision.argument(site, k) is not Layout.WHOLE]


def join_parts(decision: Decision, site: Site, meshes: Meshes) -> Iterator[tuple[File, Match]]:
    """The edits of the calls of a site: the parts of all processes become one array."""
    axis, written = axis_of(site, meshes)
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


def describe(site: Site, why: Apart) -> str:
    """The reason, with its place and the smallest change that would let it go."""
    return f"at {Place(site.file, site.node)}, {why.value}: {_CHANGES[why]}"


_CHANGES = {
    Apart.NO_MESH: "call jax.distributed.initialize() at the top of the script that maps it",
    Apart.UNMAPPED: "leave them out, and replicate the argument",
    Apart.UNPACKED: "name each argument",
    Apart.READ: "average it in the mapped function, or return only what is the same on all devices",
    Apart.FED_BACK: "give it under another name at the first call",
    Apart.KEYWORDS: "give all arguments by position",
}
