"""The schema of a capture. No JAX here: readers need none.

`docs/capture.md` documents each field; a test compares the two. A capture is JSON. A reader
ignores unknown keys, so fields can be added; when a field changes its meaning, `VERSION` is
raised and older readers refuse the file.
"""

from dataclasses import dataclass, field
from enum import StrEnum

SCHEMA = "shardlift.capture"
VERSION = 1

# A distribution of times keeps a count for each of these buckets: 16 to each doubling, from a
# nanosecond to twelve days. The middle of a bucket is within 3.2 % of anything in it.
PER_OCTAVE, LOWEST, HIGHEST = 16, -30, 20
BUCKETS = PER_OCTAVE * (HIGHEST - LOWEST + 1)


@dataclass(frozen=True)
class Distribution:
    """A distribution of times in seconds: count, sum, maximum and buckets."""

    count: int = 0
    total: float = 0.0
    max: float = 0.0
    buckets: tuple[tuple[int, int], ...] = ()  # (bucket, count), by bucket

    @property
    def mean(self) -> float:
        """The mean; 0 if there are no times."""
        return self.total / self.count if self.count else 0.0

    def quantile(self, q: float) -> float:
        """The time that a share ``q`` of the times does not exceed; 0 if there are none.

        >>> Distribution(3, 6.0, 4.0, ((480, 2), (512, 1))).quantile(0.5)
        1.03125
        """
        wanted = q * sum(count for _, count in self.buckets)
        for bucket, count in self.buckets:
            wanted -= count
            if wanted <= 0:
                return min(middle(bucket), self.max)
        return self.max


def middle(bucket: int) -> float:
    """The time in the middle of a bucket."""
    octave, part = divmod(bucket, PER_OCTAVE)
    return float((1 + (part + 0.5) / PER_OCTAVE) * 2.0 ** (octave + LOWEST))


@dataclass(frozen=True)
class Process:
    """One process of the job."""

    index: int
    count: int
    python: str
    jax: str
    shardlift: str
    platform: str
    device_kind: str
    devices: tuple[str, ...]
    host: str = ""
    ended: bool = True


@dataclass(frozen=True)
class LeafFacts:
    """An argument or an output of a site."""

    path: str
    nbytes: int
    axis: int | None
    donated: bool = False
    kept: int = 0
    compared: int = 0
    equal: bool | None = None
    digest: str | None = None


@dataclass(frozen=True)
class Proof:
    """The condition under which a part of the output is equal on all devices, for any inputs."""

    path: str
    leaves: int
    needs: tuple[int, ...] | None = None
    leaf: str = ""
    why: str = ""
    arrays: tuple[str, ...] = ()  # its leaves in every program; () if they differ


class ReasonKind(StrEnum):
    """Why a program had to be compiled."""

    FIRST_CALL = "first call"
    SAME_ARGUMENTS = "same arguments"  # pmap was given a new function, or caches were lost
    STRUCTURE = "structure"
    STATIC_ARGUMENT = "static argument"
    TYPE = "type"  # dtype or shape
    WEAK_TYPE = "weak type"
    PLACEMENT = "placement"
    CONTEXT = "context"  # a setting of JAX


@dataclass(frozen=True)
class CompileReason:
    """What differs from the most similar call before."""

    kind: ReasonKind
    path: str = ""
    before: str = ""
    after: str = ""


HOST = "host"  # where a NumPy array is


class MovedBy(StrEnum):
    """What moved an argument."""

    PMAP = "pmap"  # before the program ran
    PROGRAM = "program"  # the compiled program itself, as jit does


@dataclass(frozen=True)
class Move:
    """An argument that was not where the site needs it."""

    path: str
    source: str
    target: str
    nbytes: int
    count: int
    by: MovedBy


class ReadBy(StrEnum):
    """How an output was read."""

    INDEX = "index"
    UNREPLICATE = "unreplicate"
    DEVICE_GET = "device_get"


@dataclass(frozen=True)
class Read:
    """Outputs with a device axis that are read on one line of the program."""

    how: ReadBy
    file: str
    line: int
    count: int
    nbytes: int
    seconds: float = 0.0


class Untried(StrEnum):
    """Why a step was not tried on the whole batch."""

    ONE_DEVICE = "one device"
    MANY_PROCESSES = "many processes"
    NO_COLLECTIVE = "no collective"
    COLLECTIVE = "collective"  # one that does not reduce over all devices, or is not followed
    SIDE_EFFECTS = "side effects"
    EQUAL_ROWS = "equal rows"  # each argument is the same on all devices, which shows nothing
    RANDOM_KEYS = "random keys"  # one per device
    NO_ROWS = "no rows"  # an argument that differs between devices has no axis to join
    TOO_LARGE = "too large"
    TOO_SLOW = "too slow"  # to compile
    FAILED = "failed"  # with an error, on the whole batch


@dataclass(frozen=True)
class WholeBatchTrial:
    """A step that was run once on the rows of all devices, and how far apart the numbers were."""

    untried: Untried | None = None
    error: str = ""
    joined: tuple[int, ...] = ()
    difference: float = 0.0
    bound: float = 0.0
    at: str = ""

    @property
    def holds(self) -> bool:
        """Whether the step computed the same, to rounding."""
        return self.untried is None and self.difference <= self.bound


@dataclass(frozen=True)
class Times:
    """How the time of the calls was spent, on the thread that made them."""

    call: Distribution = field(default_factory=Distribution)
    moving: Distribution = field(default_factory=Distribution)
    compiling: Distribution = field(default_factory=Distribution)
    probes: Distribution = field(default_factory=Distribution)
    waiting: Distribution = field(default_factory=Distribution)


class ArrayRole(StrEnum):
    """What an array is to the call it belongs to."""

    LEAF = "leaf"  # of the arguments or of the output
    RESULT = "result"  # of a collective
    FACTORS = "factors"  # of the uses of a result, as far as the program computes them


RESULT_USE = "result"  # the use of a result by itself: its factor is 1/n for a pmean


@dataclass(frozen=True)
class ResultUse:
    """An operation that gets the result of a collective, multiplied by a number."""

    kind: str
    factor: float = 1.0  # without its sign


@dataclass(frozen=True)
class ArrayForm:
    """Name, type and role of an array of a call."""

    path: str
    dtype: str
    shape: tuple[int, ...]
    axis: int | None = None
    agree: bool = True
    about: str = ""
    role: ArrayRole = ArrayRole.LEAF
    collective: str = ""
    backward: bool = False
    uses: tuple[ResultUse, ...] = ()  # of the result of a collective


@dataclass(frozen=True)
class Values:
    """Digests of the arrays of one part of a call; ``forms`` is an index into the site's forms."""

    forms: int
    digests: tuple[str, ...]


class Part(StrEnum):
    """A part of a call whose arrays are kept, or which is compared."""

    INPUTS = "inputs"
    OUTPUTS = "outputs"
    INSIDE = "inside"  # exchanged by collectives
    CALLS = "calls"  # no arrays: the number of calls, and their errors


@dataclass(frozen=True)
class Sample:
    """One call, with digests of its inputs, its outputs and the results of its collectives."""

    call: int
    failed: bool = False
    inputs: Values | None = None
    outputs: Values | None = None
    inside: Values | None = None
    error: str = ""
    hidden: str = ""  # why some of its collectives were not recorded
    order: int = 0  # among the calls of all sites, from 1; 0: not known
    threaded: bool = False  # not called by the main thread: then its order is a matter of chance


class SiteKind(StrEnum):
    """How a site maps its function."""

    PMAP = "pmap"
    SHARD_MAP = "shard_map"
    JIT = "jit"


@dataclass(frozen=True)
class SiteFacts:
    """One place in the source where a function is pmapped, and what its calls did."""

    file: str
    line: int
    function: str
    axis_name: str = ""
    axis_size: int = 0
    processes: tuple[int, ...] = (0,)
    calls: int = 0
    nested: int = 0
    transformed: int = 0
    times: Times = field(default_factory=Times)
    looked: int = 0
    arguments: tuple[LeafFacts, ...] = ()
    outputs: tuple[LeafFacts, ...] = ()
    compiles: tuple[tuple[CompileReason, ...], ...] = ()
    compile_count: int = 0
    moves: tuple[Move, ...] = ()
    reads: tuple[Read, ...] = ()
    unseen: tuple[str, ...] = ()
    kind: SiteKind = SiteKind.PMAP
    names: tuple[str, ...] = ()
    forms: tuple[tuple[ArrayForm, ...], ...] = ()
    samples: tuple[Sample, ...] = ()
    proofs: tuple[Proof, ...] = ()
    whole_batch: WholeBatchTrial | None = None

    @property
    def key(self) -> tuple[str, int, str]:
        """What identifies the site."""
        return (self.file, self.line, self.function)


@dataclass(frozen=True)
class Capture:
    """Everything recorded of one run."""

    schema: str = SCHEMA
    version: int = VERSION
    command: tuple[str, ...] = ()
    patched: bool = True
    started: float = 0.0
    seconds: float = 0.0
    processes: tuple[Process, ...] = ()
    sites: tuple[SiteFacts, ...] = ()
    used: dict[str, int] = field(default_factory=dict)
    unseen: tuple[str, ...] = ()
    sources: dict[str, str] = field(default_factory=dict)
    cells: dict[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    job: str = ""
    children: int = 0  # child processes that used JAX; their calls are not recorded

    @property
    def missing(self) -> tuple[int, ...]:
        """The processes of the job that this capture has nothing of."""
        present = {process.index for process in self.processes}
        count = max((process.count for process in self.processes), default=0)
        # A damaged file may name any number.
        return tuple(k for k in range(min(count, MOST_PROCESSES)) if k not in present)

    def place(self, file: str, line: int) -> str:
        """A line as people find it: ``train.py:12``, or ``demo.ipynb:cell 3:2``.

        >>> Capture(cells={"demo.ipynb": ((1, 1), (3, 9), (4, 12))}).place("demo.ipynb", 10)
        'demo.ipynb:cell 3:2'
        """
        cell = self.cell(file, line)
        return f"{file}:cell {cell[0]}:{cell[1]}" if cell else f"{file}:{line}"

    def cell(self, file: str, line: int) -> tuple[int, int] | None:
        """The cell of a notebook that has a line of its text, and the line in it."""
        before = [cell for cell in self.cells.get(file, ()) if cell[1] <= line]
        return (before[-1][0], line - before[-1][1] + 1) if before else None


MOST_PROCESSES = 100_000  # more than any job has
