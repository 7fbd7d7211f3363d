"""A comparison of the programs that the processes of a job have traced.

A process may put a number of its own into its program, ``jax.process_index()`` for example. A jaxpr
has it as a constant, which looks the same on all devices.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import time
from typing import Any

import jax
import numpy as np

from shardlift import _compat
from shardlift.mapping.divergence import TIMEOUT_VARIABLE, timeout

_comparisons = itertools.count()


def find_difference(jaxpr: Any) -> str:
    """Why other processes may run another program; empty if they run the same, or for one process.

    Waits for the other processes: all of them have to call it.
    """
    client, seconds = _compat.coordination(), timeout()
    if client is None or seconds <= 0 or jax.process_count() == 1:
        return ""
    here, mine = f"shardlift/replication/{next(_comparisons)}", _digest(jaxpr)
    client.key_value_set(f"{here}/{jax.process_index()}", mine, allow_overwrite=True)
    deadline = time.monotonic() + seconds
    for process in range(jax.process_count()):
        left = max(1, int(1000 * (deadline - time.monotonic())))
        try:
            theirs = client.blocking_key_value_get(f"{here}/{process}", left)
        except jax.errors.JaxRuntimeError:
            waited = f"within {seconds:g} s ({TIMEOUT_VARIABLE})"
            return f"was not compared with process {process}, which did not call it {waited}"
        if theirs != mine:
            return f"is computed by another program on process {process}"
    return ""


def _digest(jaxpr: Any) -> str:
    """Digest of the jaxpr's text (addresses removed) and of its constants."""
    text = re.sub(r"\b0x[0-9a-f]{6,}", "0x", str(jaxpr))
    digest = hashlib.blake2b(text.encode(), digest_size=16)
    for const in jaxpr.consts:
        if not isinstance(const, jax.Array) or const.is_fully_addressable:
            digest.update(np.asarray(const).tobytes())
    return digest.hexdigest()
