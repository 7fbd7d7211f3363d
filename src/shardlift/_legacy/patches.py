"""Changes that can be undone in reverse order, and which of the restored names a program used."""

import functools
from collections import Counter
from collections.abc import Callable, MutableMapping
from typing import Any

_ABSENT: Any = object()


class Patches:
    """A list of changes, with the way to undo each.

    >>> class Thing:
    ...     kind = "old"
    >>> patches = Patches()
    >>> patches.set(Thing, "kind", "new")
    >>> patches.set(Thing, "size", 3)
    >>> Thing.kind, Thing.size
    ('new', 3)
    >>> patches.undo()
    >>> Thing.kind, hasattr(Thing, "size")
    ('old', False)
    """

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute of a module, class or object.

        Undoing it restores what the owner's own dictionary held, unless other code has set the
        attribute in the meantime.
        """
        before = vars(owner).get(name, _ABSENT)
        setattr(owner, name, value)
        ours = vars(owner).get(name, _ABSENT)

        def back() -> None:
            if vars(owner).get(name, _ABSENT) is not ours:
                return
            if before is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, before)

        self._undo.append(back)

    def item(self, owner: MutableMapping[Any, Any], key: Any, value: Any) -> None:
        """Set an entry of a dictionary."""
        before = owner.get(key, _ABSENT)
        owner[key] = value

        def back() -> None:
            if before is _ABSENT:
                owner.pop(key, None)
            else:
                owner[key] = before

        self._undo.append(back)

    def on_undo(self, undo: Callable[[], None]) -> None:
        """Call ``undo`` when everything is undone."""
        self._undo.append(undo)

    def undo(self) -> None:
        """Undo everything, the last change first; errors are raised together at the end."""
        errors: list[Exception] = []
        while self._undo:
            try:
                self._undo.pop()()
            except Exception as error:
                errors.append(error)
        if errors:
            raise ExceptionGroup("some changes could not be undone", errors)


class Uses(Counter[str]):
    """Name -> how often it was looked up; for a function of this package, called.

    >>> uses = Uses()
    >>> uses.note("jax.tree_map")
    >>> dict(uses)
    {'jax.tree_map': 1}
    """

    recorder: Any = None  # a `shardlift.facts.Recorder`

    def note(self, name: str) -> None:
        """Count one more use, if it is the program's own."""
        if self.recorder is not None:
            if self.recorder.is_apart():
                return
            self.recorder.used(name)
        self[name] += 1

    def counter(self, name: str) -> Callable[[], None]:
        """A function that notes one more use of ``name``."""
        return lambda: self.note(name)

    def count_calls(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        """``function``, with a use of ``name`` noted at each call."""

        @functools.wraps(function)
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.note(name)
            return function(*args, **kwargs)

        counted.__counts_calls__ = True  # type: ignore[attr-defined]
        return counted
