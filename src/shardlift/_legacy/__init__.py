"""What an unmodified pmap program finds while it runs: pmap as it was, and the names that went.

Everything is put in by one context manager, and taken out by it in reverse order. The package has
an underscore because the public function `shardlift.legacy` has its plain name.

=================  =============================================================================
`names`            the one table of restored names and modules, each with its release
`modules`          gives them out when they are asked for
`adapters`         the few that are more than another name
`pmaps`            `jax.pmap` with its old arguments and its old type
`sharding`         `PmapSharding` and its specs
`attributes`       `.device_buffers`, `.device()`
`options`          options of `jax.config`
`indexing`         `x[i]` reads one device's row
`keywords`         removed keywords of `jax.numpy` functions and of `ClosedJaxpr`
`libraries`        helpers of flax
=================  =============================================================================
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

from shardlift._import_hook import AfterImport
from shardlift._legacy.patches import Patches
from shardlift._legacy.uses import Recorder, Uses

__all__ = ["Recorder", "Session", "Uses", "legacy"]

_lock = threading.RLock()
_active: list[Session] = []


class Session:
    """One stretch of time in which everything is put in."""

    def __init__(
        self, *, patch: bool = True, prepare: Callable[[], Recorder | None] | None = None
    ) -> None:
        """As ``legacy``; ``prepare`` gives the recorder when JAX has been imported."""
        self.patch, self.prepare = patch, prepare
        self.uses = Uses()
        self._patches = Patches()
        self._depth = 0

    def enter(self) -> Uses:
        """Put everything in: now, if JAX is imported, or else when it will be."""
        with _lock:
            if _active:
                _active[0]._depth += 1
                return _active[0].uses
            jax = sys.modules.get("jax")
            if jax is not None and hasattr(jax, "pmap"):
                self._put_in(jax)
            else:
                hook = AfterImport("jax", self._put_in)
                hook.install()
                self._patches.later(hook.remove)
            _active.append(self)
            return self.uses

    def exit(self) -> None:
        """Take everything out, if nobody else is inside any more."""
        with _lock:
            outermost = _active[0]
            if outermost._depth:
                outermost._depth -= 1
                return
            _active.clear()
            outermost._patches.undo()

    def _put_in(self, jax: types.ModuleType) -> None:
        if self.prepare is not None:
            self.uses.recorder = self.prepare()
        try:
            _put_in(jax, self._patches, self.uses, patch=self.patch)
        except BaseException:
            self._patches.undo()
            raise


def _put_in(jax: types.ModuleType, patches: Patches, uses: Uses, *, patch: bool) -> None:
    # Not at the top: all of these import JAX, which the program may never do.
    from shardlift._legacy import (
        attributes,
        indexing,
        keywords,
        libraries,
        modules,
        options,
        pmaps,
    )
    from shardlift.mapping import pmap
    from shardlift.source.model import version

    recorder, stock = uses.recorder, jax.pmap
    if patch:
        here = version(jax.__version__)
        modules.restore(patches, uses, here)
        options.restore(patches, uses, here)
        attributes.restore(patches, uses)
        keywords.restore(patches, uses, here)
    elif recorder is None:
        return
    read = None if recorder is None else recorder.read
    indexing.fast_rows(patches, read, patch=patch)
    libraries.restore(patches, read, patch=patch)
    ours: Any = functools.partial(pmap, reshard="silent") if patch else stock
    if recorder is not None:
        ours = recorder.pmap(ours)
        patches.set(jax, "jit", recorder.jit(jax.jit))
    if patch:
        ours = pmaps.old_pmap(ours, uses.noting("jax.pmap"))
    patches.set(jax, "pmap", ours)
    pmaps.replace_everywhere(patches, stock, ours)


@contextlib.contextmanager
def legacy(*, patch: bool = True, recorder: Recorder | None = None) -> Iterator[Uses]:
    """Let pmap programs of earlier JAX run inside: pmap as it was, and the names that went.

    Args:
      patch: False restores nothing; it only lets ``recorder`` observe.
      recorder: is told of every pmapped call and of every output that is read.

    Yields:
      Which restored names were used, and how often.

    Inside another ``legacy()``, whichever thread opened it, it adds nothing, and everything
    stays in until the last one is left.

    >>> import jax, shardlift
    >>> with shardlift.legacy() as uses:
    ...     print(jax.tree_map(lambda x: x + 1, [1, 2]))
    [2, 3]
    >>> dict(uses)
    {'jax.tree_map': 1}
    """
    session = Session(patch=patch, prepare=lambda: recorder)
    uses = session.enter()
    try:
        yield uses
    finally:
        session.exit()
