"""The mesh of a rewritten file: a variable of a script, or a function that makes it once.

A script makes its mesh above the first function that needs it. A module that others import must
not touch devices while it is imported, and what sets JAX up must run before the first device is
touched: there, the mesh comes from the helper `device_mesh`.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from shardlift.rewrite.call_format import CallText, Style, render
from shardlift.rewrite.device_axis.cells import CellRole, NodePlace
from shardlift.rewrite.device_axis.followed_program import FollowedProgram
from shardlift.rewrite.device_axis.global_sites import GlobalSite
from shardlift.rewrite.device_axis.solve import AxisLayout, Decision
from shardlift.rewrite.explicit_sites import trains
from shardlift.rewrite.names import first_free, jax_name
from shardlift.rewrite.options import DEFAULT_AXIS
from shardlift.rewrite.scripts import may_touch_devices
from shardlift.source.file import File
from shardlift.source.model import Edit, HelperRequest, Kind, Match
from shardlift.source.statements import newline

HELPER = "device_mesh"


class Meshes:
    """The meshes of a program's files, and what was written for each axis."""

    def __init__(self, program: FollowedProgram, decision: Decision) -> None:
        """Find the place of each file's mesh."""
        self._names: dict[File, dict[str, str]] = {}
        self._shardings: dict[File, dict[str, str]] = {}
        self._first: dict[File, ast.stmt] = {}
        for place in _users(program, decision):
            statement = _top_level(place)
            first = self._first.setdefault(place.file, statement)
            if statement.lineno < first.lineno:
                self._first[place.file] = statement
        self._scripts = {
            file: may_touch_devices(file, first.lineno) for file, first in self._first.items()
        }
        self.default_axis = _default_axis(program)
        self._training = {
            site.file: site.axis_name
            for site in reversed(program.sites.values())
            if trains(site.options, site.node)
        }

    def text(self, file: File, axis: str, written: str) -> str:
        """The expression of the mesh with an axis, which the text has as `written`."""
        if not self.is_variable(file):
            return f"{HELPER}({written})"
        names = self._names.setdefault(file, {})
        if axis not in names:
            own = [f"{axis}_mesh"] if axis.isidentifier() else []
            candidates = ["mesh", *own, *(f"mesh_{number}" for number in range(2, 99))]
            is_another = axis != (self._training.get(file) or axis)  # than of the training step
            names[axis] = first_free(file, candidates[is_another:], {*names.values()})
        return names[axis]

    def sharding(self, file: File, axis: str, written: str, split: bool) -> str:
        """The sharding of what is split over an axis, or whole: a variable, below the mesh."""
        jax = jax_name(file)[0]
        spec, name = (
            (f"{jax}.P({written})", f"over_{axis}") if split else (f"{jax}.P()", "replicated")
        )
        sharding = f"{jax}.NamedSharding({self.text(file, axis, written)}, {spec})"
        if not self.is_variable(file):
            return sharding
        names = self._shardings.setdefault(file, {})
        if sharding not in names:
            candidates = (name, f"{name}_{axis}", *(f"sharding_{k}" for k in range(99)))
            names[sharding] = first_free(file, candidates, {*names.values()})
        return names[sharding]

    def is_variable(self, file: File) -> bool:
        """Whether the mesh of a file is a variable, which exists once the module has run."""
        return self._scripts.get(file, False)

    def definitions(self) -> Iterator[tuple[File, Match]]:
        """The statements that make the meshes that were used."""
        for file, names in self._names.items():
            yield file, self._defined(file, names)

    def _defined(self, file: File, names: Mapping[str, str]) -> Match:
        first, style = self._first[file], Style.of(file.source.text)
        lines = [_definition(file, name, axis, style) for axis, name in names.items()]
        if not file.many_processes:
            lines += _one_process(style, next(iter(names.values())))
        lines += [f"{name} = {text}" for text, name in self._shardings.get(file, {}).items()]
        line = min([first.lineno, *(d.lineno for d in getattr(first, "decorator_list", ()))])
        end = newline(file)
        is_block = isinstance(first, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        text = "\n".join(lines).replace("\n", end) + end * (3 if is_block else 1)
        edit = Edit(file.stretch(line, 0, line, 0), text)
        return Match(first, "", (edit,), jax_name(file)[1], kind=Kind.DEVICE_AXIS)


def axis_of(site: GlobalSite) -> tuple[str, str]:
    """The axis name of a site, and its text."""
    written = site.options.text("axis_name")
    if site.axis_name is None or written is None:
        return DEFAULT_AXIS, f'"{DEFAULT_AXIS}"'
    return site.axis_name, written


def _users(program: FollowedProgram, decision: Decision) -> Iterable[NodePlace]:
    """The places whose new text may need a mesh: sites that stay stacked use the same one."""
    for site in program.sites.values():
        yield NodePlace(site.file, site.node)
    for key, root in decision.classes.items():
        if decision.layouts[key] is AxisLayout.WHOLE:
            yield from (made.at for made in root.made if made.role is CellRole.REPLICATE)


def _top_level(place: NodePlace) -> ast.stmt:
    """The statement of the module that a place is in."""
    around = [place.node, *place.file.index.ancestors(place.node)]
    statement = around[-2] if len(around) > 1 else around[0]
    assert isinstance(statement, ast.stmt)
    return statement


def _default_axis(program: FollowedProgram) -> str:
    """The axis of arrays that are placed for sites without an axis name: the most common one."""
    named = Counter(site.axis_name for site in program.sites.values() if site.axis_name)
    return named.most_common(1)[0][0] if named else DEFAULT_AXIS


def _definition(file: File, name: str, axis: str, style: Style) -> str:
    jax, opening = jax_name(file)[0], f"{name} = "
    devices, names = f"{jax}.devices()", f"({style.string(axis)},)"
    if file.many_processes:  # in the order of pmap: the devices of a process one after the other
        devices = f"sorted({devices}, key=lambda device: device.process_index)"
    return opening + render(
        CallText(f"{jax}.sharding.Mesh", (devices, names)), style, "", len(opening)
    )


def _one_process(style: Style, mesh: str) -> list[str]:
    """What was written for one process does not run in several."""
    message = style.string("written for one process, not for several")
    return [f"if {mesh}.is_multi_process:", f"{style.indent}raise RuntimeError({message})"]


def needs_helper(text: str) -> frozenset[HelperRequest]:
    """The helper that the expression of a mesh needs."""
    return frozenset({HelperRequest(HELPER)} if text.startswith(f"{HELPER}(") else ())
