"""The pmaps whose arrays may lose their device axis: their options, and what a run proved."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property

from shardlift.capture import schema
from shardlift.rewrite.device_axis.cells import Cell, Key
from shardlift.rewrite.device_axis.reasons import Advice, Obstacle, ObstacleKind, obstacle
from shardlift.rewrite.device_axis.recordings import assign_facts
from shardlift.rewrite.device_axis.stacked_arrays import all_devices
from shardlift.rewrite.nested import tangled
from shardlift.rewrite.options import (
    NotLiteralError,
    Options,
    UnsupportedError,
    literal,
    read_options,
)
from shardlift.source.file import File
from shardlift.source.idioms import device_count
from shardlift.source.mentions import Mention, Use, is_decorator
from shardlift.source.scopes import positional
from shardlift.source.sites import mapped_function
from shardlift.source.values import Constant, Known, Mapped

Axes = tuple[int | None, ...] | int | None


class OutputKind(Enum):
    """What a part of an output is."""

    ARRAY = "array"
    TREE = "tree"


@dataclass(eq=False)
class GlobalSite:
    """A pmap that is called, or decorates a function."""

    file: File = field(repr=False)
    node: ast.expr  # the call of pmap, or the decorator
    options: Options
    mapped: Mapped | None
    in_axes: Axes = 0
    out_axes: Axes = 0
    donated: tuple[int, ...] = ()
    static: tuple[int, ...] = ()
    facts: schema.SiteFacts | None = None
    doubt: Obstacle | None = None  # why recorded runs are not believed
    ran_on_all_devices: bool = False  # in recorded runs
    calls: list[tuple[File, ast.Call]] = field(default_factory=list)
    given: dict[int, list[Cell]] = field(default_factory=dict)  # to its calls, by position
    results: list[Cell] = field(default_factory=list)  # of its calls
    arguments: int | None = None  # how many it is called with
    has_keywords: bool = False  # it is called with keyword arguments
    named: tuple[str, ...] = ()  # the last arguments, if its calls give them by keyword
    obstacles: list[Obstacle] = field(default_factory=list)  # why it has to stay stacked

    @cached_property
    def function(self) -> Known | None:
        """The function that is mapped, if it is one of the program's."""
        return mapped_function(self.mapped) if self.mapped is not None else None

    @cached_property
    def axis_name(self) -> str | None:
        """The axis name, if it is known."""
        node = self.options.keywords.get("axis_name")
        value = self.file.only(node) if node is not None else None
        is_text = isinstance(value, Constant) and isinstance(value.value, str)
        return value.value if is_text else None  # type: ignore[union-attr,return-value]

    @property
    def name(self) -> str:
        """The name of the mapped function, for messages."""
        operand = self.options.operand
        default = self.file.brief(operand) if operand is not None else "the function"
        return str(getattr(self.function and self.function.node, "name", default))

    def in_axis(self, position: int) -> int | None:
        """The axis along which an argument is mapped."""
        if isinstance(self.in_axes, tuple):
            return self.in_axes[position] if position < len(self.in_axes) else 0
        return self.in_axes

    def out_axis(self, path: tuple[Key, ...]) -> int | None:
        """The axis along which a part of the output is mapped; None if it has no device axis."""
        if not isinstance(self.out_axes, tuple):
            return self.out_axes
        first = path[0] if path else None
        is_listed = isinstance(first, int) and 0 <= first < len(self.out_axes)
        return self.out_axes[first] if is_listed else 0  # type: ignore[index]

    @property
    def has_mixed_outputs(self) -> bool:
        """Whether some parts of the output have a device axis and others have none."""
        return isinstance(self.out_axes, tuple) and len(set(self.out_axes)) > 1

    def kind(self, path: tuple[Key, ...]) -> OutputKind | None:
        """What a part of the output was in all recorded programs; None if that is not known."""
        proofs = self.facts.proofs if self.facts is not None else ()
        if not path:
            is_tree = isinstance(self.out_axes, tuple) or any(p.path != "output" for p in proofs)
            return OutputKind.TREE if is_tree else OutputKind.ARRAY if proofs else None
        outermost, spellings = _spellings(path[:1]), _spellings(path)
        for proof in proofs:
            if proof.path in outermost:
                return _kind(proof, spellings, is_outermost=len(path) == 1)
        return None

    def is_array(self, path: tuple[Key, ...]) -> bool:
        """Whether a part of the output was one array in all recorded programs."""
        return self.kind(path) is OutputKind.ARRAY

    def length(self) -> int | None:
        """How many elements the output has, if it is a tuple."""
        if isinstance(self.out_axes, tuple):
            return len(self.out_axes)
        paths = [proof.path for proof in self.facts.proofs] if self.facts is not None else []
        listed = [f"output[{k}]" for k in range(len(paths))]
        return len(paths) if paths and paths == listed else None

    def may_take_scalars(self, position: int) -> bool:
        """Whether an argument has scalars in the row of a device, as far as runs do not deny it."""
        leaves = self.argument_leaves(position)
        if self.facts is None or self.facts.leaves_left_out:
            return True
        return not leaves or any(len(leaf.shape) <= 1 for leaf in leaves)

    def argument_leaves(self, position: int) -> list[schema.LeafFacts]:
        """What a run recorded of the leaves of an argument."""
        facts, function = self.facts, self.function
        names = positional(function.node) if function is not None else []  # type: ignore[arg-type]
        if facts is None or position >= len(names):
            return []
        inside = (f"{names[position]}[", f"{names[position]}.")
        return [
            leaf
            for leaf in facts.arguments
            if leaf.path == names[position] or leaf.path.startswith(inside)
        ]

    def proofs(self, path: tuple[Key, ...]) -> list[schema.Proof]:
        """What a run proved of the parts of the output at a path."""
        if self.facts is None or self.facts.axis_size == 1:
            return []  # on one device everything is the same on all devices
        if self.facts.transformed or self.facts.nested:
            return []  # programs inside of other programs were not analysed
        proofs = [replace(one, needs=self._positions(one.needs)) for one in self.facts.proofs]
        if not path:
            return proofs
        wanted = _spellings(path[:1])
        return [proof for proof in proofs if proof.path in (*wanted, "output")]

    def _positions(self, needs: tuple[int, ...] | None) -> tuple[int, ...] | None:
        """The positions of arguments; a run counts those that are given by name by the alphabet."""
        if needs is None or not self.named:
            return needs
        first = (self.arguments or 0) - len(self.named)
        by_name = [first + self.named.index(name) for name in sorted(self.named)]
        return tuple(k if k < first else by_name[k - first] for k in needs)


def _kind(proof: schema.Proof, spellings: Sequence[str], is_outermost: bool) -> OutputKind | None:
    """What the part of an output with one of these paths is."""
    if not set(spellings).isdisjoint(proof.arrays):
        return OutputKind.ARRAY
    inside = tuple(f"{path}{sign}" for path in spellings for sign in "[.")
    is_tree = any(path.startswith(inside) for path in proof.arrays)
    is_tree = is_tree or (is_outermost and proof.leaves > 1)
    return OutputKind.TREE if is_tree else None


def _spellings(path: Sequence[Key]) -> list[str]:
    """How a capture may write the path of an output: a string may be a key or an attribute."""
    paths = ["output"]
    for key in path:
        ways = [f"[{key!r}]"] if isinstance(key, int) else [f"[{key!r}]", f".{key}"]
        paths = [one + way for one in paths for way in ways]
    return paths


def find_program_sites(
    files: Sequence[File], captures: Sequence[schema.Capture]
) -> list[GlobalSite]:
    """Every pmap of a program, with what runs recorded of it, unless that is out of date."""
    sites = [site for file in files for site in _find_sites(file)]
    assign_facts(sites, files, captures)
    return sites


def _find_sites(file: File) -> list[GlobalSite]:
    """Every pmap of a file, in the order of the text."""
    inside = tangled(file)
    sites: list[GlobalSite] = []
    for mention in file.mentions:
        if mention.is_own and _is_site(file, mention):
            site = _site(file, mention.node)
            if site.node in inside:
                site.obstacles.append(obstacle(ObstacleKind.AS_TOLD, None, text=inside[site.node]))
            sites.append(site)
    return sites


def _is_site(file: File, mention: Mention) -> bool:
    """Whether it is a call that maps a function, or the only decorator of a function."""
    if mention.use is Use.DECORATOR:
        function = file.index.parents[mention.node]
        return isinstance(function, ast.FunctionDef) and len(function.decorator_list) == 1
    call = mention.node
    if mention.use is not Use.CALL or not isinstance(call, ast.Call):
        return False
    return bool(call.args) or any(keyword.arg == "fun" for keyword in call.keywords)


def _site(file: File, node: ast.expr) -> GlobalSite:
    decorated = file.index.parents.get(node)
    decorates = is_decorator(file, node)
    try:
        if decorates:
            options = Options(file, None, {})
            if isinstance(node, ast.Call):
                options = read_options(file, node, skip=1)
            value = file.only(decorated)  # type: ignore[arg-type]
        else:
            assert isinstance(node, ast.Call)
            options = read_options(file, node)
            value = file.only(node)
        mapped = value if isinstance(value, Mapped) else None
        site = GlobalSite(file, node, options, mapped)
        site.in_axes = _axes(options, "in_axes")
        site.out_axes = _axes(options, "out_axes")
        site.donated = options.numbers("donate_argnums")
        site.static = options.numbers("static_broadcasted_argnums")
    except (NotLiteralError, UnsupportedError) as error:
        why = obstacle(ObstacleKind.OPTIONS, Advice.OPTIONS_WRITTEN, error=error)
        return GlobalSite(file, node, Options(file, None, {}), None, obstacles=[why])
    site.obstacles += _obstacles(site, decorated if decorates else None)
    return site


def _obstacles(site: GlobalSite, decorated: ast.AST | None) -> Iterable[Obstacle]:
    for name in ("devices", "backend", "axis_size"):
        text = site.options.text(name)
        if text not in (None, "()", "[]", "None") and not _is_on_all_devices(site, name):
            yield obstacle(ObstacleKind.GIVEN, Advice.LEAVE_OUT, option=name)
    axis = site.options.keywords.get("axis_name")
    while isinstance(axis, ast.Attribute):
        axis = axis.value
    is_text = isinstance(axis, ast.Constant) and isinstance(axis.value, str)
    if axis is not None and not is_text and not isinstance(axis, ast.Name):
        yield obstacle(ObstacleKind.AXIS_COMPUTED, Advice.AXIS_WRITTEN)
    if isinstance(site.options.keywords.get("out_axes"), ast.List):
        yield obstacle(ObstacleKind.OUT_AXES_LIST, Advice.RETURN_TUPLE)
    if any(number < 0 for number in (*site.donated, *site.static)):
        yield obstacle(ObstacleKind.FROM_END, Advice.FROM_START)
    if decorated is not None and isinstance(site.file.index.parents.get(decorated), ast.ClassDef):
        yield obstacle(ObstacleKind.METHOD, Advice.MAP_FUNCTION)


def _is_on_all_devices(site: GlobalSite, name: str) -> bool:
    """Whether `devices` or `axis_size` is just what pmap takes if it has one row per device."""
    node = site.options.keywords.get(name)
    if node is None or site.file.many_processes:  # there, the devices of all processes
        return False
    if name == "devices":
        return all_devices(site.file, node)
    return name == "axis_size" and device_count(site.file, node) is not None


def _axes(options: Options, key: str) -> Axes:
    """`in_axes` or `out_axes` of 0 and None; other axes are not supported."""
    node = options.keywords.get(key)
    axes = 0 if node is None else literal(node)
    if isinstance(axes, list):
        axes = tuple(axes)
    listed = axes if isinstance(axes, tuple) else (axes,)
    if not all(axis is None or (axis == 0 and type(axis) is int) for axis in listed):
        raise NotLiteralError(f"its {key} are not all 0 or None")
    return axes  # type: ignore[return-value]
