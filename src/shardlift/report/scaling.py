"""What the recorded sites would hold and move on another number of devices. Pure arithmetic.

One axis of a site's mesh is made longer; each device goes on to work on a block of the recorded
size. A batch therefore grows with the devices, and everything else of a device stays.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from shardlift.capture.schema import Collective, LargerMesh, Leaf, Site

__all__ = ["Link", "Network", "ScalingError", "SitePlan", "Transfer", "block_bytes", "plan_site"]


class ScalingError(ValueError):
    """The site cannot be laid out on so many devices."""


@dataclass(frozen=True)
class Link:
    """What connects two devices: bytes per second, and seconds until the first byte arrives."""

    speed: float
    latency: float


@dataclass(frozen=True)
class Network:
    """The devices that are planned for."""

    devices: int
    per_host: int = 1

    @property
    def hosts(self) -> int:
        """How many machines that is."""
        return math.ceil(self.devices / self.per_host)


# How many times the operand a device sends to a group of n, with a ring; then the number of steps
# of a ring and of a tree, one after the other.
_REDUCED = frozenset({"psum", "pmin", "pmax", "psum_invariant", "psum2"})
_SCATTERED = frozenset({"reduce_scatter", "psum_scatter", "all_to_all"})
_GATHERED = frozenset({"all_gather", "all_gather_invariant", "pgather"})


@dataclass(frozen=True)
class Transfer:
    """The collectives of one kind in one call, in groups of some size."""

    collective: Collective
    group: int  # devices that take part in one

    @property
    def sent(self) -> float:
        """Bytes that each device sends per call.

        >>> psum = Collective("psum", ("i",), 1, 1000)
        >>> Transfer(psum, 2).sent, Transfer(psum, 1000).sent
        (1000.0, 1998.0)
        """
        n, nbytes = self.group, self.collective.nbytes
        if self.collective.kind in _REDUCED:
            return 2 * (n - 1) / n * nbytes
        if self.collective.kind in _SCATTERED:
            return (n - 1) / n * nbytes
        if self.collective.kind in _GATHERED:
            return float((n - 1) * nbytes)
        return float(nbytes) if n > 1 else 0.0

    @property
    def is_linear(self) -> bool:
        """Do the bytes grow with the devices, without a bound?"""
        return self.collective.kind in _GATHERED

    @property
    def result(self) -> int:
        """Bytes of the results on each device, where they are more than the operands."""
        return self.group * self.collective.nbytes if self.is_linear else 0

    def sent_by_host(self, per_host: int) -> float:
        """Bytes that leave a host per call, if the devices of a group fill hosts one by one."""
        n, hosted = self.group, min(per_host, self.group)
        if n <= per_host:
            return 0.0
        if self.collective.kind == "all_to_all":  # each device sends something to every other one
            return hosted * (n - hosted) / n * self.collective.nbytes
        return self.sent  # a ring leaves a host once

    def seconds(self, link: Link) -> tuple[float, float]:
        """How long it takes at least, with a ring and with a tree."""
        n, count = self.group, self.collective.count
        if n == 1:
            return 0.0, 0.0
        both = 2 if self.collective.kind in _REDUCED else 1
        hops = 1 if self.collective.kind in ("ppermute", "pbroadcast") else n - 1
        levels = min(hops, math.ceil(math.log2(n)))
        moving = self.sent / link.speed
        return tuple(count * both * steps * link.latency + moving for steps in (hops, levels))  # type: ignore[return-value]


@dataclass(frozen=True)
class Replica:
    """An argument that several devices hold alike."""

    path: str
    nbytes: int  # on each device
    copies: int  # devices that hold the same


@dataclass(frozen=True)
class SitePlan:
    """One site on the planned devices."""

    site: Site
    mesh: Mapping[str, int]
    arguments: int  # bytes that each device holds
    outputs: int
    reused: int  # bytes of outputs that can take the place of donated arguments
    replicas: tuple[Replica, ...]
    transfers: tuple[Transfer, ...]
    before: tuple[Transfer, ...]  # the same on the recorded devices
    assumed: tuple[str, ...]  # what is taken to stay as it is, but may not
    growing: tuple[str, ...]  # what grows on each device, according to two captures
    lowered: LargerMesh | None  # the program for these devices, where it was recorded


def plan_site(
    site: Site, devices: int, axis: str | None = None, also: Site | None = None
) -> SitePlan:
    """Lay a site out on ``devices`` devices, with a longer ``axis``: by default the first one.

    ``also`` is the same site, recorded with another length of the axis: what differs between the
    two is taken to go on growing, or shrinking, in the same way. Where the site was lowered for
    such a mesh, its collectives and outputs are those of that program.
    """
    mesh = mesh_of(site)
    name = next(iter(mesh)) if axis is None else axis
    if name not in mesh:
        raise ScalingError(f"there is no axis {name!r}; there is {', '.join(mesh)}")
    others = math.prod(mesh.values()) // mesh[name]
    if devices % others:
        raise ScalingError(f"its other axes take {others} devices, and {devices} is no multiple")
    longer = {**mesh, name: devices // others}
    trend = Trend(site, also, name, longer[name])
    arguments = [(leaf, trend.block(leaf)) for leaf in site.arguments]
    outputs = [(leaf, trend.block(leaf)) for leaf in site.outputs]
    held = sum(nbytes for _, nbytes in outputs)
    exchanged: Iterable[Collective] = map(trend.collective, site.collectives)
    lowered = next((one for one in site.larger if one.mesh == longer), None)
    program = lowered if lowered is not None and not lowered.error else None
    if program is not None:
        held, exchanged = program.outputs, program.collectives
    donated = sum(nbytes for leaf, nbytes in arguments if leaf.donated)
    return SitePlan(
        site,
        longer,
        sum(nbytes for _, nbytes in arguments),
        held,
        min(donated, held),
        tuple(_replicas(arguments, longer)),
        tuple(_transfers(exchanged, longer)),
        tuple(_transfers(site.collectives, mesh)),
        () if also or program else tuple(_assumptions(site, mesh[name])),
        tuple(trend.growing),
        lowered,
    )


def mesh_of(site: Site) -> dict[str, int]:
    """The axes of a site, and their sizes."""
    return dict(site.mesh) or {site.axis_name: site.axis_size}


class Trend:
    """How the arrays of a site change with the length of an axis."""

    def __init__(self, site: Site, also: Site | None, axis: str, length: int) -> None:
        """``length`` is that of the axis that is planned."""
        self.growing: list[str] = []  # what grows
        self._mesh = mesh_of(site)
        self._far = length / self._mesh[axis]
        self._blocks: dict[str, int] = {}
        self._collectives: dict[object, Collective] = {}
        self._ratio = 1.0
        if also is not None:
            mesh = mesh_of(also)
            self._ratio = mesh.get(axis, 0) / self._mesh[axis]
            leaves = (*also.arguments, *also.outputs)
            self._blocks = {leaf.path: block_bytes(leaf, mesh) for leaf in leaves}
            self._collectives = {kind_of(one): one for one in also.collectives}

    def block(self, leaf: Leaf) -> int:
        """Bytes of a leaf on each device."""
        nbytes = block_bytes(leaf, self._mesh)
        return self._extend(nbytes, self._blocks.get(leaf.path, nbytes), leaf.path)

    def collective(self, collective: Collective) -> Collective:
        """The collectives of a kind."""
        other = self._collectives.get(kind_of(collective), collective)
        name = f"the operands of {collective.kind}"
        return replace(
            collective,
            nbytes=self._extend(collective.nbytes, other.nbytes, name),
            count=self._extend(collective.count, other.count, f"the number of {collective.kind}s"),
        )

    def _extend(self, value: int, other: int, name: str) -> int:
        if value == other or not value or not other or self._ratio in (0, 1):
            return value
        power = math.log(other / value) / math.log(self._ratio)
        if power > 0:
            self.growing.append(name)
        return round(value * self._far ** (round(power) if abs(power % 1 - 0.5) > 0.4 else power))


def kind_of(collective: Collective) -> object:
    """What collectives have in common that are counted together."""
    return collective.kind, collective.axes, collective.gradient


def _assumptions(site: Site, length: int) -> Iterator[str]:
    """What may depend on the number of devices, which one capture does not tell."""
    yield from (leaf.path for leaf in site.arguments if _may_grow(leaf, length))
    if any(one.kind in _SCATTERED | _GATHERED for one in site.collectives):
        yield "the outputs"


def _replicas(leaves: list[tuple[Leaf, int]], mesh: Mapping[str, int]) -> Iterator[Replica]:
    """The arguments that several devices hold, the largest first."""
    for leaf, nbytes in sorted(leaves, key=lambda item: -item[1]):
        split = {name for names in _split(leaf) for name in names}
        copies = math.prod(size for name, size in mesh.items() if leaf.equal or name not in split)
        if copies > 1:
            yield Replica(leaf.path, nbytes, copies)


def _transfers(collectives: Iterable[Collective], mesh: Mapping[str, int]) -> Iterator[Transfer]:
    for collective in collectives:
        sizes = [mesh[name] for name in collective.axes if name in mesh]
        yield Transfer(collective, math.prod(sizes) if sizes else math.prod(mesh.values()))


def _may_grow(leaf: Leaf, size: int) -> bool:
    """Has a block a dimension as long as the axis, which may be one row per device?"""
    inner = [n for k, n in enumerate(leaf.shape) if k != leaf.axis]
    return size > 1 and size in inner


_NAMES = re.compile(r"'([^']*)'")


def block_bytes(leaf: Leaf, mesh: Mapping[str, int]) -> int:
    """Bytes of a leaf on one device."""
    size = 1
    for length, names in zip(leaf.shape, _split(leaf), strict=True):
        parts = math.prod(mesh.get(name, 1) for name in names)
        # A pmapped argument has the rows of one process only: one for each of its devices.
        size *= math.ceil(length / min(parts, length)) if length else 0
    return math.ceil(size * item_bits(leaf.dtype) / 8)


def _split(leaf: Leaf) -> list[list[str]]:
    """For each dimension, the axes over which it is split."""
    text = leaf.spec.removeprefix("P(").removesuffix(")")
    entries = re.findall(r"\([^)]*\)|[^,\s][^,]*", text)
    names = [_NAMES.findall(entry) for entry in entries]
    return (names + [[] for _ in leaf.shape])[: len(leaf.shape)]


def item_bits(dtype: str) -> int:
    """Bits of one element.

    >>> [item_bits(name) for name in ("float32", "bfloat16", "bool", "float8_e4m3fn", "key<fry>")]
    [32, 16, 8, 8, 64]
    """
    if dtype.startswith("key<"):
        return 64
    match = re.search(r"\d+", dtype)
    return int(match[0]) if match else 8
