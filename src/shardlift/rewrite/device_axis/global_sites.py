"""The pmaps whose arrays may lose their device axis: their options, and what a run proved."""

import ast
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property, reduce
from pathlib import PurePath

from shardlift.capture import schema
from shardlift.capture.proofs import of_all_programs
from shardlift.rewrite.device_axis.cells import Cell, Key
from shardlift.rewrite.device_axis.reasons import Obstacle, ObstacleKind, obstacle
from shardlift.rewrite.nested import tangled
from shardlift.rewrite.options import (
    Axes,
    NotLiteralError,
    Options,
    UnsupportedError,
    each,
    options_of,
    plain_options,
)
from shardlift.rewrite.scripts import is_mapped_again
from shardlift.source.file import File
from shardlift.source.mentions import Mention, Use, is_decorator
from shardlift.source.scopes import argument_at
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
        arrays = {array for proof in proofs for array in proof.arrays}
        if not arrays.isdisjoint(_spellings(path)):
            return OutputKind.ARRAY
        inside = tuple(f"{spelling}{sign}" for spelling in _spellings(path) for sign in "[.")
        is_tree = any(known.startswith(inside) for known in (*arrays, *(p.path for p in proofs)))
        return OutputKind.TREE if is_tree else None

    def length(self) -> int | None:
        """How many elements the output has, if it is a tuple."""
        paths = [proof.path for proof in self.facts.proofs] if self.facts is not None else []
        listed = [f"output[{k}]" for k in range(len(paths))]
        return len(paths) if paths and paths == listed else None

    def proofs(self, path: tuple[Key, ...]) -> list[schema.Proof]:
        """What a run proved of the parts of the output at a path."""
        if self.facts is None or self.facts.axis_size == 1:
            return []  # on one device everything is the same on all devices
        if self.facts.transformed or self.facts.nested:
            return []  # programs inside of other programs were not analysed
        wanted = ("output", *_spellings(path[:1]))
        return [proof for proof in self.facts.proofs if not path or proof.path in wanted]


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
    sites: list[GlobalSite] = []
    for file in files:
        inside = tangled(file)
        for mention in file.mentions:
            if mention.is_own and _is_site(file, mention):
                site = _site(file, mention)
                if site.node in inside:
                    site.obstacles.append(obstacle(ObstacleKind.AS_TOLD, text=inside[site.node]))
                sites.append(site)
    _assign_facts(sites, files, captures)
    return sites


def _is_site(file: File, mention: Mention) -> bool:
    """Whether it is a call that maps a function, or the only decorator of a function."""
    call = mention.node
    if mention.use is Use.DECORATOR:
        function = file.index.parents[call]
        return isinstance(function, ast.FunctionDef) and len(function.decorator_list) == 1
    is_call = mention.use is Use.CALL and isinstance(call, ast.Call)
    return is_call and argument_at(call, 0, "fun") is not None  # type: ignore[arg-type]


def _site(file: File, mention: Mention) -> GlobalSite:
    node = mention.node
    decorated = file.index.parents[node] if mention.use is Use.DECORATOR else None
    value = file.only(decorated or node)
    try:
        options = options_of(file, mention)
        plain, donated = plain_options(options), options.numbers("donate_argnums")
    except (NotLiteralError, UnsupportedError) as error:
        why = obstacle(ObstacleKind.OPTIONS, error=error)
        return GlobalSite(file, node, Options(file, None, {}), None, obstacles=[why])
    outputs = {*each(plain.out_axes)}
    obstacles = {
        ObstacleKind.AXES: len(outputs) != 1 or not {0, None} >= outputs.union(each(plain.in_axes)),
        ObstacleKind.GIVEN: bool(plain.devices),
        ObstacleKind.NEGATIVE: any(number < 0 for number in donated),
        ObstacleKind.STATIC: bool(plain.static),
        ObstacleKind.MAPPED_AGAIN: is_mapped_again(file, node, options.operand),
        ObstacleKind.METHOD: decorated is not None
        and isinstance(file.index.parents.get(decorated), ast.ClassDef),
    }
    return GlobalSite(
        file,
        node,
        options,
        value if isinstance(value, Mapped) else None,
        plain.axis,
        plain.in_axes,
        None if outputs == {None} else 0,
        donated,
        obstacles=[obstacle(kind) for kind, is_so in obstacles.items() if is_so],
    )


# ---- what runs recorded


def _assign_facts(
    sites: Sequence[GlobalSite], files: Sequence[File], captures: Sequence[schema.Capture]
) -> None:
    """Give each site what runs recorded of it, or the reason why that is not used.

    A run is believed only about the text that it was recorded of, and a fact has to hold in all
    runs that called the site.
    """
    believed: dict[GlobalSite, list[schema.SiteFacts]] = {}
    for capture in captures:
        names = {file: _recorded_names(file, files, capture) for file in files}
        changed = ""  # a file whose text is not the one that was recorded
        for file in reversed(files):
            known = {capture.sources[name] for name in names[file] & capture.sources.keys()}
            changed = file.path if known and file.source.digest not in known else changed
        recorded = {site: _recorded(site, names[site.file], capture) for site in sites}
        counts = Counter(map(id, recorded.values()))
        for site, facts in recorded.items():
            if facts is None or counts[id(facts)] > 1:
                continue  # a recorded site that matches two places is of neither
            if changed:
                site.doubt = site.doubt or obstacle(ObstacleKind.FILE_CHANGED, file=changed)
            elif names[site.file] & capture.sources.keys():
                believed.setdefault(site, []).append(facts)
                count = sum(len(process.devices) for process in capture.processes)
                if 1 < facts.axis_size < count:
                    site.obstacles.append(obstacle(ObstacleKind.FEWER_ROWS))
    for site, runs in believed.items():
        runs = [run for run in runs if run.axis_size != 1] or runs  # one device proves nothing
        parts = [", ".join(proof.path for proof in run.proofs) for run in runs if run.proofs]
        differing = next((other for other in parts if other != parts[0]), None)
        site.facts, site.doubt = _combine(runs), None
        if differing is not None:
            about = {"name": site.name, "parts": f"{parts[0]} and {differing}"}
            site.doubt = obstacle(ObstacleKind.RUNS_DISAGREE, **about)


def _recorded_names(file: File, files: Sequence[File], capture: schema.Capture) -> set[str]:
    """What a run in this or another folder may call a file, or a copy of it."""
    here, others = os.path.abspath(file.path), {os.path.abspath(other.path) for other in files}
    names = {*capture.sources, *(site.file for site in capture.sites)}
    exact = {name for name in names if os.path.abspath(name) == here}
    ends = {
        name
        for name in names
        if os.path.abspath(name) not in others and PurePath(here).match(name.replace("\\", "/"))
    }
    text = file.source.digest
    return exact or ends or {name for name, known in capture.sources.items() if known == text}


def _recorded(
    site: GlobalSite, names: set[str], capture: schema.Capture
) -> schema.SiteFacts | None:
    """The recorded site at the same place, if there is just one."""
    first, last = site.node.lineno, site.node.end_lineno or site.node.lineno
    decorated = site.file.index.parents.get(site.node)
    if isinstance(decorated, ast.FunctionDef) and is_decorator(site.file, site.node):
        last = max(last, decorated.lineno)
    candidates = [
        facts
        for facts in capture.sites
        if facts.calls and first <= facts.line <= last and facts.file in names
    ]
    name = getattr(site.function.node, "name", "<lambda>") if site.function else None
    if len(candidates) != 1 or name not in (None, candidates[0].function):
        return None  # perhaps the file was changed since
    return candidates[0]


def _combine(runs: Sequence[schema.SiteFacts]) -> schema.SiteFacts:
    """What holds in all runs of a site; of the trials on the whole batch, the least certain."""
    trials = [run.whole_batch for run in runs]
    tried = [trial for trial in trials if trial is not None and trial.untried is None]
    worst = max(tried, key=lambda trial: trial.difference / trial.bound) if tried else trials[0]
    if worst is not None and len({trial.joined for trial in tried}) > 1:
        worst = replace(worst, joined=())
    proofs = reduce(of_all_programs, [run.proofs for run in runs])
    return replace(
        runs[0],
        nested=sum(run.nested for run in runs),
        transformed=sum(run.transformed for run in runs),
        proofs=tuple(proofs),
        whole_batch=worst,
    )
