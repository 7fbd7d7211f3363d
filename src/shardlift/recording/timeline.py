"""When calls ran: all calls at first, then every second, every fourth and so on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

MOST_CALLS = 1024

Call = tuple[int, float, float, bool]  # site, start, end, did it compile a program?


class Timeline:
    """A bounded list of calls, spread evenly over the run."""

    def __init__(self) -> None:
        self.stride = 1
        self._seen = 0
        self._calls: list[Call] = []
        self._compiling: list[Call] = []

    def add(self, site: int, spans: Sequence[tuple[float, float]], compiled: bool = False) -> None:
        """Add calls of one site."""
        if compiled and len(self._compiling) < MOST_CALLS // 8:
            self._compiling += [(site, start, end, True) for start, end in spans]
            return
        first = -self._seen % self.stride  # the first one whose turn it is
        self._seen += len(spans)
        self._calls += [(site, start, end, compiled) for start, end in spans[first :: self.stride]]
        while len(self._calls) >= MOST_CALLS:
            self._calls = self._calls[::2]
            self.stride *= 2

    def calls(self) -> Iterator[Call]:
        """The calls that were kept, ordered by their start."""
        yield from sorted(self._calls + self._compiling, key=lambda call: call[1])
