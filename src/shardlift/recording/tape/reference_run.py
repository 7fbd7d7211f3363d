"""The other program: which calls have collectives on tape, and which arrays differ from its own."""

from collections.abc import Sequence

from shardlift.capture.layouts import digest_parts
from shardlift.capture.schema import Capture, Part, Sample
from shardlift.capture.site_pairs import best_match
from shardlift.recording.site_records import SiteRecord


class ReferenceRun:
    """The capture of the other program."""

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self._calls: dict[int, dict[int, Sample] | None] = {}  # by the site of this program

    def calls(self, site: SiteRecord) -> dict[int, Sample] | None:
        """The calls of the same site in the other program, by number; None if it has none."""
        if site.index not in self._calls:
            sites = self._capture.sites
            place = best_match(site.key.function, site.names, sites)
            calls = None if place is None else {call.call: call for call in sites[place].samples}
            self._calls[site.index] = calls
        return self._calls[site.index]

    def differing(
        self, site: SiteRecord, number: int, part: Part, digests: Sequence[str]
    ) -> list[int]:
        """The arrays of one part of a call that its call ``number`` does not have."""
        sample = (self.calls(site) or {}).get(number)
        values = sample and getattr(sample, part)
        if not values:
            return []
        known = digest_parts(values.digests)
        return [k for k, digest in enumerate(digests) if known.isdisjoint(digest.split("/"))]

    def has_collectives(self, site: SiteRecord, number: int) -> bool:
        """Whether the results of collectives in its call ``number`` are on tape."""
        sample = (self.calls(site) or {}).get(number)
        return sample is not None and sample.inside is not None and bool(sample.inside.digests)
