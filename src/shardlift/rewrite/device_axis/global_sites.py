"""The pmaps whose arrays may lose their device axis: their options, and what a run proved."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

from shardlift.capture import schema
from shardlift.rewrite.device_axis.cells import Cell, Key, NodePlace
from shardlift.rewrite.device_axis.reasons import Obstacle, ObstacleKind, obstacle
from shardlift.rewrite.device_axis.recordings import assign_facts
from shardlift.rewrite.nested import tangled
from shardlift.rewrite.options import (
    Axes,
    NotLiteralError,
    Options,
    PlainOptions,
    UnsupportedError,
    options_of,
    plain_options,
)
from shardlift.rewrite.scripts import is_mapped_again
from shardlift.source.file import File
from shardlift.source.mentions import Mention, Use
from shardlift.source.scopes import positional
from shardlift.source.sites import mapped_function
from shardlift.source.values import Known, Mapped


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
    axis_name: str | None = None
    in_axes: Axes = 0
    out_axes: int | None = 0
    donated: tuple[int, ...] = ()
    facts: schema.SiteFacts | None = None
    doubt: Obstacle | None = None  # why recorded runs are not believed
    given: dict[int, list[Cell]] = field(default_factory=dict)  # to its calls, by position
    results: list[Cell] = field(default_factory=list)  # of its calls
    calls: list[NodePlace] = field(default_factory=list)
    arguments: int | None = None  # how many it is called with
    obstacles: list[Obstacle] = field(default_factory=list)  # why it has to stay stacked

    @cached_property
    def function(self) -> Known | None:
        """The function that is mapped, if it is one of the program's."""
        return mapped_function(self.mapped) if self.mapped is not None else None

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

    def kind(self, path: tuple[Key, ...]) -> OutputKind | None:
        """What a part of the output was in all recorded programs; None if that is not known."""
        proofs = self.facts.proofs if self.facts is not None else ()
        if not path:
            is_tree = any(p.path != "output" for p in proofs)
            return OutputKind.TREE if is_tree else OutputKind.ARRAY if proofs else None
        outermost, spellings = _spellings(path[:1]), _spellings(path)
        for proof in proofs:
            if proof.path in outermost:
                return _kind(proof, spellings, is_outermost=len(path) == 1)
        return None

    def length(self) -> int | None:
        """How many elements the output has, if it is a tuple."""
        paths = [proof.path for proof in self.facts.proofs] if self.facts is not None else []
        listed = [f"output[{k}]" for k in range(len(paths))]
        return len(paths) if paths and paths == listed else None

    def may_take_scalars(self, position: int) -> bool:
        """Whether an argument has scalars in the row of a device, as far as runs do not deny it."""
        facts, function = self.facts, self.function
        names = positional(function.node) if function is not None else []  # type: ignore[arg-type]
        if facts is None or facts.leaves_left_out or position >= len(names):
            return True
        inside = (f"{names[position]}[", f"{names[position]}.")
        leaves = [
            leaf
            for leaf in facts.arguments
            if leaf.path == names[position] or leaf.path.startswith(inside)
        ]
        return not leaves or any(len(leaf.shape) <= 1 for leaf in leaves)

    def proofs(self, path: tuple[Key, ...]) -> list[schema.Proof]:
        """What a run proved of the parts of the output at a path."""
        if self.facts is None or self.facts.axis_size == 1:
            return []  # on one device everything is the same on all devices
        if self.facts.transformed or self.facts.nested:
            return []  # programs inside of other programs were not analysed
        wanted = ("output", *_spellings(path[:1]))
        return [one for one in self.facts.proofs if not path or one.path in wanted]


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
            site = _site(file, mention)
            if site.node in inside:
                site.obstacles.append(obstacle(ObstacleKind.AS_TOLD, text=inside[site.node]))
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


def _site(file: File, mention: Mention) -> GlobalSite:
    node = mention.node
    decorated = file.index.parents[node] if mention.use is Use.DECORATOR else None
    value = file.only(decorated or node)
    mapped = value if isinstance(value, Mapped) else None
    try:
        options = options_of(file, mention)
        site = GlobalSite(file, node, options, mapped)
        plain = plain_options(options)
        site.axis_name = plain.axis
        site.in_axes, site.out_axes = _axes(plain.in_axes, "in_axes"), _out_axis(plain.out_axes)
        site.donated = options.numbers("donate_argnums")
    except (NotLiteralError, UnsupportedError) as error:
        why = obstacle(ObstacleKind.OPTIONS, error=error)
        return GlobalSite(file, node, Options(file, None, {}), None, obstacles=[why])
    site.obstacles += _obstacles(site, plain, decorated)
    return site


def _obstacles(
    site: GlobalSite, plain: PlainOptions, decorated: ast.AST | None
) -> Iterable[Obstacle]:
    if plain.devices:
        yield obstacle(ObstacleKind.GIVEN, option="devices")
    if any(number < 0 for number in site.donated):
        yield obstacle(ObstacleKind.FROM_END)
    if plain.static:
        yield obstacle(ObstacleKind.STATIC)
    if is_mapped_again(site.file, site.node, site.options.operand):
        yield obstacle(ObstacleKind.MAPPED_AGAIN)
    if decorated is not None and isinstance(site.file.index.parents.get(decorated), ast.ClassDef):
        yield obstacle(ObstacleKind.METHOD)


def _axes(axes: Axes, key: str) -> Axes:
    """`in_axes` or `out_axes` of 0 and None; other axes are not supported."""
    if not {0, None} >= {*(axes if isinstance(axes, tuple) else (axes,))}:
        raise UnsupportedError(f"its {key} are not all 0 or None")
    return axes


def _out_axis(axes: Axes) -> int | None:
    listed = {*axes} if isinstance(axes, tuple) else {axes}
    if len(listed) != 1:
        raise UnsupportedError("its out_axes are not the same for all outputs")
    _axes(axes, "out_axes")
    return listed.pop()
