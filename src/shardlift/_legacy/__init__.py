"""What an unmodified pmap program needs to run: pmap as it was, and the removed names of JAX.

One context manager installs everything and uninstalls it in reverse order. The package has an
underscore because the public function `shardlift.legacy` has its plain name.

=================  =============================================================================
`names`            the table of restored names and modules, each with its release
`modules`          looks them up when a program asks for them
`adapters`         functions that are more than a new name for their successor
`pmaps`            `jax.pmap` with its old arguments and its old type
`sharding`         `PmapSharding`
`attributes`       `.device_buffers`, `.device()`
`options`          options of `jax.config`
`indexing`         `x[i]` reads one device's row, as do helpers of flax
`keywords`         removed keywords, and `None` in `tree_map`
`meanings`         names whose meaning changed: `jnp.empty`, random numbers, `addressable_data`
=================  =============================================================================
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from shardlift._import_hook import AfterImport
from shardlift._legacy.patches import Patches, Uses

if TYPE_CHECKING:
    from shardlift.source.model import Version

__all__ = ["Session", "Uses", "legacy"]

_lock = threading.RLock()
_active: list[Session] = []


class Session:
    """Installs everything until the last ``exit``."""

    def __init__(
        self,
        *,
        patch: bool = True,
        written_for: Version | None = None,
        prepare: Callable[[], Any] | None = None,
    ) -> None:
        """As ``legacy``; ``prepare`` returns the recorder once JAX has been imported."""
        self.patch, self.written_for, self.prepare = patch, written_for, prepare
        self.uses = Uses()
        self._patches = Patches()
        self._depth = 0

    def enter(self) -> Uses:
        """Install everything: now, if JAX is imported, or else when it will be."""
        with _lock:
            if _active:
                _active[0]._depth += 1
                return _active[0].uses
            jax = sys.modules.get("jax")
            if jax is not None and hasattr(jax, "pmap"):
                self._install(jax)
            else:
                self._patches.on_undo(AfterImport("jax", self._install).install())
            _active.append(self)
            return self.uses

    def exit(self) -> None:
        """Uninstall everything, unless another session has not exited yet."""
        with _lock:
            outermost = _active[0]
            if outermost._depth:
                outermost._depth -= 1
                return
            _active.clear()
            outermost._patches.undo()

    def _install(self, jax: types.ModuleType) -> None:
        if self.prepare is not None:
            self.uses.recorder = self.prepare()
        try:
            self._install_all(jax)
        except BaseException:
            self._patches.undo()
            raise

    def _install_all(self, jax: types.ModuleType) -> None:
        # Not at the top: all of these import JAX, which the program may never do.
        from shardlift._legacy import (
            attributes,
            indexing,
            keywords,
            meanings,
            modules,
            options,
            pmaps,
        )
        from shardlift.mapping import pmap
        from shardlift.source.model import version

        patches, uses, patch = self._patches, self.uses, self.patch
        recorder, stock = uses.recorder, jax.pmap
        if patch:
            modules.restore(patches, uses, version(jax.__version__))
            options.restore(patches, uses)
            attributes.restore(patches, uses)
            keywords.restore(patches, uses)
            meanings.restore(patches, uses, self.written_for)
        elif recorder is None:
            return
        read = None if recorder is None else recorder.read
        indexing.fast_rows(patches, read, patch=patch)
        indexing.restore_library_reads(patches, read, patch=patch)
        ours: Any = functools.partial(pmap, reshard="silent") if patch else stock
        if recorder is not None:
            ours = recorder.pmap(ours)
            patches.set(jax, "jit", recorder.jit(jax.jit))
        if patch:
            ours = pmaps.old_pmap(ours, uses.counter("jax.pmap"))
        patches.set(jax, "pmap", ours)
        pmaps.replace_everywhere(patches, stock, ours)


@contextlib.contextmanager
def legacy(
    *, patch: bool = True, written_for: str | None = None, recorder: Any = None
) -> Iterator[Uses]:
    """Run pmap programs of earlier JAX inside: with pmap as it was, and the removed names.

    Args:
      patch: False restores nothing, and only lets ``recorder`` observe.
      written_for: the JAX release that the program was written for, such as "0.4.20": names
        whose meaning has changed since, random numbers among them, mean what they did then.
      recorder: a `shardlift.facts.Recorder`, which observes every pmapped call and every read of
        an output.

    Yields:
      The restored names that were used, and how often.

    Inside another ``legacy()``, in whichever thread, it has no effect of its own, and everything
    stays installed until the last one is left.

    >>> import jax, shardlift
    >>> with shardlift.legacy() as uses:
    ...     print(jax.tree_map(lambda x: x + 1, [1, 2]))
    [2, 3]
    >>> dict(uses)
    {'jax.tree_map': 1}
    """
    from shardlift.source.model import version

    then = None if written_for is None else version(written_for)
    session = Session(patch=patch, written_for=then, prepare=lambda: recorder)
    uses = session.enter()
    try:
        yield uses
    finally:
        session.exit()
