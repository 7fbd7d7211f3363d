"""Options of the tape. No JAX here: they are sent to processes that have not imported it yet."""

from dataclasses import dataclass

KEEP = 64 * 2**20  # bytes of outputs, and of inputs, whose values are kept
TAPPED = 2  # calls of each program of a site whose collectives are recorded
KEPT_CALLS = 4  # calls of a site whose values `verify` keeps before it knows what differs


@dataclass(frozen=True)
class TapeOptions:
    """What is kept of the calls of a program.

    Args:
      keep: bytes of inputs, of outputs, and of results of collectives, whose values are kept, each
        in all sites.
      tapped: calls of each program of a site whose collectives are recorded.
      kept_calls: calls of each site whose values are kept; None keeps all. Of the
        other calls, those arrays are kept that differ from the reference.
    """

    keep: int = KEEP
    tapped: int = TAPPED
    kept_calls: int | None = None
