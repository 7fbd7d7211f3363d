"""What recorded runs say about the sites of a program, where they can be believed.

A run is believed only about the text that it was recorded of. A fact has to hold in all runs that
called the site.
"""

from __future__ import annotations

import ast
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from shardlift.capture import schema
from shardlift.capture.proofs import of_all_programs
from shardlift.capture.text_digest import digest
from shardlift.rewrite.device_axis.reasons import Obstacle, ObstacleKind, obstacle
from shardlift.source.mentions import is_decorator

if TYPE_CHECKING:
    from shardlift.rewrite.device_axis.global_sites import GlobalSite
    from shardlift.source.file import File


def assign_facts(
    sites: Sequence[GlobalSite], files: Sequence[File], captures: Sequence[schema.Capture]
) -> None:
    """Give each site what the runs recorded of it, or the reason why that is not used."""
    believed: dict[GlobalSite, list[schema.SiteFacts]] = {}
    for capture in captures:
        matches = _without_ambiguous({site: _recorded(site, capture) for site in sites})
        changed = _changed_file(files, capture)
        for site, recorded in matches.items():
            is_dated = bool(_digests(site.file, [site.file], capture))
            if is_dated and not changed:
                believed.setdefault(site, []).append(recorded)
                if _is_on_some_devices(recorded, capture):
                    site.obstacles.append(obstacle(ObstacleKind.FEWER_ROWS))
            else:
                kind = ObstacleKind.FILE_CHANGED if changed else ObstacleKind.UNDATED
                doubt = obstacle(kind, file=changed or site.file.path)
                site.doubt = site.doubt or doubt
    for site, runs in believed.items():
        site.facts, site.doubt = combine(runs), _disagreement(site, runs)


def _is_on_some_devices(recorded: schema.SiteFacts, capture: schema.Capture) -> bool:
    """Whether a site was called on several devices, but not on all of the job."""
    count = sum(len(process.devices) for process in capture.processes)
    return 1 < recorded.axis_size < count


def combine(runs: Sequence[schema.SiteFacts]) -> schema.SiteFacts:
    """What holds in all runs of a site. A run on one device proves nothing about several."""
    runs = _on_several_devices(runs)
    first = runs[0]
    proofs = reduce(of_all_programs, [run.proofs for run in runs])
    return replace(
        first,
        nested=sum(run.nested for run in runs),
        transformed={name: count for run in runs for name, count in run.transformed.items()},
        leaves_left_out=max(run.leaves_left_out for run in runs),
        collectives=tuple(dict.fromkeys(c for run in runs for c in run.collectives)),
        proofs=tuple(proofs),
        whole_batch=_least_certain([run.whole_batch for run in runs]),
    )


def _least_certain(
    trials: Sequence[schema.WholeBatchTrial | None],
) -> schema.WholeBatchTrial | None:
    """The trial that agrees least; one that shows nothing only if there is no other."""
    tried = [trial for trial in trials if trial is not None and trial.untried is None]
    if not tried:
        return trials[0]
    worst = max(tried, key=lambda trial: trial.difference / trial.bound)
    joined = {trial.joined for trial in tried}
    return worst if len(joined) == 1 else replace(worst, joined=())


def _on_several_devices(runs: Sequence[schema.SiteFacts]) -> Sequence[schema.SiteFacts]:
    return [run for run in runs if run.axis_size != 1] or runs


def _disagreement(site: GlobalSite, runs: Sequence[schema.SiteFacts]) -> Obstacle | None:
    runs = _on_several_devices(runs)
    parts = [", ".join(p.path for p in run.proofs) for run in runs if run.proofs]
    differing = next((other for other in parts if other != parts[0]), None)
    if differing is None:
        return None
    about = {"name": site.name, "parts": f"{parts[0]} and {differing}"}
    return obstacle(ObstacleKind.RUNS_DISAGREE, **about)


def _without_ambiguous(
    matches: dict[GlobalSite, schema.SiteFacts | None],
) -> dict[GlobalSite, schema.SiteFacts]:
    """Without recorded sites that match two places."""
    counts = Counter(id(recorded) for recorded in matches.values())
    return {
        site: recorded
        for site, recorded in matches.items()
        if recorded is not None and counts[id(recorded)] == 1
    }


def _changed_file(files: Sequence[File], capture: schema.Capture) -> str:
    """A file whose text is not the one that was recorded."""
    for file in files:
        known = _digests(file, files, capture)
        if known and digest(file.source.text) not in known:
            return file.path
    return ""


def _digests(file: File, files: Sequence[File], capture: schema.Capture) -> set[str]:
    """The digests that a capture has for a file. A run in another folder names it from there."""
    exact = {os.path.abspath(path): text for path, text in capture.sources.items()}
    here = os.path.abspath(file.path)
    if here in exact:
        return {exact[here]}
    paths = {os.path.abspath(one.path) for one in files}
    rest = {
        path: text for path, text in capture.sources.items() if os.path.abspath(path) not in paths
    }
    named = {text for path, text in rest.items() if is_file(path, here)}
    return named or {capture.sources[path] for path in _copies(file, capture)}


def _recorded(site: GlobalSite, capture: schema.Capture) -> schema.SiteFacts | None:
    """The recorded site at the same place, if there is just one."""
    first, last = site.node.lineno, site.node.end_lineno or site.node.lineno
    decorated = site.file.index.parents.get(site.node)
    if isinstance(decorated, ast.FunctionDef) and is_decorator(site.file, site.node):
        last = max(last, decorated.lineno)
    here = os.path.abspath(site.file.path)
    copies = _copies(site.file, capture)
    candidates = [
        one
        for one in capture.sites
        if one.calls
        and first <= one.line <= last
        and (is_file(one.file, here) or one.file in copies)
    ]
    name = getattr(site.function.node, "name", "<lambda>") if site.function else None
    if len(candidates) != 1 or name not in (None, candidates[0].function):
        return None  # perhaps the file was changed since
    return candidates[0]


def _copies(file: File, capture: schema.Capture) -> set[str]:
    """The files of a capture that have the text of this one, whatever they are called."""
    text = digest(file.source.text)
    return {path for path, recorded in capture.sources.items() if recorded == text}


def is_file(recorded: str, path: str) -> bool:
    """Whether a path of a capture, which may be relative, is the end of a file's path."""
    here = os.path.abspath(path)
    parts = [part for part in recorded.replace("\\", "/").split("/") if part not in ("", ".")]
    mine = here.replace("\\", "/").split("/")
    return len(parts) > 0 and mine[-len(parts) :] == parts
