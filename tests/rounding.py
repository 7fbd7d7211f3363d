"""How this suite compares numbers: the policy, and the functions that hold it.

Another CPU has wider vectors, or fuses multiplications and additions, and so rounds in other
places; XLA does it too from one release to the next. Therefore:

1. **Bit by bit** only between computations of the same machine in the same run of the tests.
2. **What was recorded elsewhere** is compared by `assert_recorded`, within `tolerance` of the
   largest number of the array. The tolerance follows from how many roundings lie between the
   inputs and the result; next to the number there is the count it comes from. Integers, booleans,
   random keys, shapes and dtypes are equal everywhere, and so is what is never rounded
   (``operations=0``: small integers, halves, copies).
3. **A program that decides** (accepts, sorts, cuts off at zero) by a rounded number can go
   another way on another CPU. It is written without the decision (a smooth activation, no ranks).
4. **What pages show** is compared as text. They print few digits: `tests/docs/test_pages.py`.

To see another CPU: ``XLA_FLAGS=--xla_cpu_max_isa=SSE4_2 pytest tests/legacy/test_programs.py``
(also AVX; ``--xla_backend_optimization_level=0``, ``--xla_cpu_enable_fast_math=true``).
"""

from __future__ import annotations

from typing import Any

import numpy as np


def tolerance(dtype: Any, operations: int) -> float:
    """Relative error that so many roundings in a row can make.

    One makes half an epsilon at most, so this is twice the worst case. They rarely point the same
    way; the room is for cancellation, and for `exp` and `tanh`, which are approximated.
    """
    return operations * float(np.finfo(dtype).eps)


def assert_recorded(now: np.ndarray, recorded: np.ndarray, operations: int, where: str) -> None:
    """Fail unless this is what was recorded on another machine, up to rounding."""
    assert (now.shape, now.dtype) == (recorded.shape, recorded.dtype), where
    if recorded.dtype.kind not in "fc" or not operations:
        np.testing.assert_array_equal(now, recorded, err_msg=where)
        return
    largest = float(np.abs(recorded).max(initial=0))
    room = tolerance(recorded.dtype, operations) * largest
    np.testing.assert_allclose(now, recorded, rtol=0, atol=room, err_msg=where)
