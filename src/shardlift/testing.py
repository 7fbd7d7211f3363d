"""Comparing a migrated function with its pmap original, for the test suite of a project.

from shardlift.testing import assert_same_as_pmap

def test_train_step():
    assert_same_as_pmap(train_step, jax.pmap(one_device_step, axis_name="batch"), state, batch)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax

from shardlift.capture.layouts import same_digest, together
from shardlift.capture.pairs import pair_leaves
from shardlift.capture.schema import ArrayForm
from shardlift.recording.tape.host_arrays import HostArray, read_array
from shardlift.verify.compare import causes
from shardlift.verify.compare.array_distance import Tolerance, distance, within
from shardlift.verify.compare.leaf_comparison import identical, structure, words

__all__ = ["assert_same_as_pmap"]


def assert_same_as_pmap(
    new: Callable[..., Any],
    old: Callable[..., Any],
    *args: Any,
    new_args: Sequence[Any] | None = None,
    ulps: int = 0,
    rtol: float = 0.0,
    atol: float = 0.0,
    **kwargs: Any,
) -> None:
    """Assert that a migrated function computes what its pmap original computes.

    Both are called with copies of the arguments, so that donation does no harm. Every output is
    compared bit by bit. Outputs that are stacked (n, b, ...) on one side, and global (n * b, ...)
    or replicated on the other, are converted to one layout.

    Args:
      new: the migrated function.
      old: the pmapped function: `jax.pmap(f, ...)` or `shardlift.pmap(f, ...)`.
      *args: the arguments of both.
      new_args: the arguments of `new`, if it takes other layouts than pmap did.
      ulps: how many floating-point numbers two elements may be apart.
      rtol: how far they may be apart, relative to the largest number of the array.
      atol: how far they may be apart. An element passes if it is within any of the bounds.
      **kwargs: keyword arguments of both.

    Raises:
      AssertionError: an output differs; the message names each by its path, with the distance and
        the likely cause.
    """
    __tracebackhide__ = True  # pytest shows the test, not this function
    before = _outputs(old(*_copied(args), **_copied(kwargs)))
    given = args if new_args is None else tuple(new_args)
    after = _outputs(new(*_copied(given), **_copied(kwargs)))
    if not before and not after:
        raise AssertionError(f"nothing to compare: {_name(old)} and {_name(new)} return no arrays")
    differences = list(_differences(before, after, Tolerance(ulps, rtol, atol)))
    if differences:
        head = f"{_name(new)} differs from pmap in {len(differences)} of {len(before)} outputs:"
        raise AssertionError("\n".join([head, *differences]))


def _copied(tree: Any) -> Any:
    return jax.tree.map(lambda x: x.copy() if isinstance(x, jax.Array) else x, tree)


def _outputs(tree: Any) -> list[HostArray]:
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return [read_array(jax.tree_util.keystr(path) or "the output", leaf) for path, leaf in leaves]


def _differences(
    before: Sequence[HostArray], after: Sequence[HostArray], tolerance: Tolerance
) -> Iterator[str]:
    def same(i: int, j: int) -> bool:
        return same_digest(before[i].digest, after[j].digest)

    paired = pair_leaves([x.form for x in before], [x.form for x in after], same)
    yield from (_line(before[k], "only pmap returns it") for k in paired.before)
    yield from (_line(after[k], "pmap does not return it") for k in paired.after)
    for i, j in paired.pairs:
        if difference := _difference(before[i], after[j], tolerance):
            yield _line(before[i], *difference)


def _line(output: HostArray, what: str, cause: str = "") -> str:
    return f"  {output.form.path}: {what}" + (f"\n    likely: {cause}" if cause else "")


def _difference(
    before: HostArray, after: HostArray, tolerance: Tolerance
) -> tuple[str, str] | None:
    """What differs, and the likely cause."""
    forms = before.form, after.form
    mismatch = structure(*forms)
    if mismatch is not None:
        return mismatch
    if before.values is None or after.values is None:
        return "it cannot be read, so it was not compared", ""
    if identical(forms, (before.digest, after.digest)):
        return None
    left, right, axis = together(before.values, after.values, (forms[0].axis, forms[1].axis))
    if tolerance and within(left, right, tolerance):
        return None
    return words(distance(left, right)), causes.likely(left, right, axis, _devices(forms))


def _devices(forms: tuple[ArrayForm, ArrayForm]) -> int:
    """The number of rows of the pmapped output; of devices, if it has none."""
    axis, shape = forms[0].axis, forms[0].shape
    return shape[axis] if axis is not None and axis < len(shape) else jax.local_device_count()


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", None) or type(function).__name__
