"""Captures for tests, as runs of given texts would have written them."""

import ast
import dataclasses
from collections.abc import Mapping

from shardlift.capture.schema import Capture, Proof, SiteFacts
from shardlift.rewrite.device_axis.global_sites import GlobalSite as Pmapped
from shardlift.rewrite.device_axis.global_sites import find_program_sites
from shardlift.source.project import Project
from shardlift.source.text import read_source


def dated(capture: Capture | None, texts: Mapping[str, str]) -> list[Capture]:
    """The capture of a run of these texts; what it says itself of a text stays. [] if None."""
    if capture is None:
        return []
    known = {path.rpartition("/")[2] for path in capture.sources}
    new = [path for path in texts if path.rpartition("/")[2] not in known]
    sources = {path: read_source(path, texts[path].encode()).digest for path in new}
    return [dataclasses.replace(capture, sources=sources | capture.sources)]


def proof(path: str, needs: tuple[int, ...] | None = (), *inside: str) -> Proof:
    """What a run proved of a part of an output: of an array, or of a tree with these arrays."""
    arrays = tuple(f"{path}{key}" for key in inside or ("",))
    why = (arrays[0], "a reason") if needs is None else ("", "")
    return Proof(path, len(arrays), needs, *why, arrays=arrays)


def all_proven(files: Mapping[str, str], needs: tuple[int, ...] = ()) -> Capture:
    """A run on eight devices that proved every array that every pmap of the files returns.

    `needs` are the arguments that have to be the same on all devices.
    """
    project = Project(files, lambda path: read_source(path, files[path].encode()))
    sites = find_program_sites([project.file(path) for path in files], ())
    return Capture(sites=tuple(_recorded(site, needs) for site in sites))


def _recorded(site: Pmapped, needs: tuple[int, ...]) -> SiteFacts:
    returns = site.function.returns() if site.function is not None else []
    lengths = {len(one.elts) if isinstance(one, ast.Tuple) else None for one in returns}
    (length,) = lengths if len(lengths) == 1 else (None,)
    paths = ["output"] if length is None else [f"output[{k}]" for k in range(length)]
    name = getattr(site.function and site.function.node, "name", "<lambda>")
    line, proofs = site.node.lineno, tuple(proof(path, needs) for path in paths)
    return SiteFacts(site.file.path, line, name, axis_size=8, calls=1, proofs=proofs)
