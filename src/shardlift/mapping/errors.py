"""A catalogue of errors that people meet when they leave pmap: text, cause and fix.

JAX raises these itself, often far from the cause. When one of them passes through a pmapped
call, `add_hint` adds the explanation to the exception as a note; its type and text stay.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Hint(NamedTuple):
    """One known error: how to recognise it, its cause and its fix."""

    name: str
    pattern: str
    cause: str
    fix: str

    def __str__(self) -> str:
        return f"shardlift: {self.name}\n  cause: {self.cause}\n  fix: {self.fix}"


CATALOGUE = (
    Hint(
        "incompatible-devices",
        r"[Rr]eceived incompatible devices for jitted computation"
        r"|Sharding passed to p?jit does not match the sharding on the respective arg",
        "an input is committed to other devices than the program runs on, or has another layout "
        "on them. Since JAX 0.8 a pmap does not move such inputs by itself.",
        "place the input first with jax.device_put(x, sharding), or have it moved: "
        'shardlift.pmap(..., reshard="warn").',
    ),
    Hint(
        "numpy",
        r"Passing non-trivial shardings for numpy inputs is not allowed",
        "in a job of many processes jit takes a NumPy array only if every device gets all of it.",
        "place it first: with jax.device_put for the devices of this process, with "
        "shardlift.stitch for the devices of all processes.",
    ),
    Hint(
        "context-mesh",
        r"[Cc]ontext mesh .* should match the (mesh passed to shard_map|aval mesh)",
        "a mapped function runs inside another mapped function, or under jax.set_mesh, and the "
        "two meshes differ. jax.pmap cannot nest since JAX 0.8.",
        "nest shardlift.pmap in shardlift.pmap: they share one mesh. Inside a shard_map of your "
        "own, call the inner function with jax.vmap, or give the outer mesh both axes. An output "
        "of a pmap that meets arrays of an Explicit mesh goes through jax.device_put first.",
    ),
    Hint(
        "copy-arrays",
        r"CopyArrays only supports destination device list of the same size",
        "an array on the devices of several processes was indexed, as in x[0], which needs devices "
        "that this process cannot reach.",
        "read this process's own row: x.addressable_shards[0].data, without its leading axis; "
        "loop over shards with range(), not jnp.arange().",
    ),
    Hint(
        "lowered-host-local",
        r"differ from the types for which this computation was compiled"
        r"|Computation was compiled for input shardings that disagree",
        "a compiled program (lower().compile()) was called with arrays of another shape or "
        "sharding than it was lowered for. A compiled jax.pmap does not convert the local arrays "
        "of a process to global ones.",
        "call it with arrays like those given to lower(), or call the pmapped function itself.",
    ),
    Hint(
        "axis-name",
        r"INVALID_ARGUMENT: Unknown axis|expected CustomCallOp with a sharding attribute",
        "the text of the axis name has a quote, which JAX 0.12 cannot write into a collective.",
        "name the axis with a plain string, or give the name's class a __str__ without quotes.",
    ),
    Hint(
        "core-halted",
        r"[Cc]ore halted unexpectedly|Accelerator device halted prematurely",
        "the processes did not run the same programs in the same order; the usual reason is a "
        "home-made barrier, such as a psum of ones.",
        "use jax.experimental.multihost_utils.sync_global_devices(name) as the barrier, and look "
        "for calls that only some processes make.",
    ),
)


def hint_for(error: BaseException) -> Hint | None:
    """The catalogue entry for this error, if there is one.

    >>> hint_for(ValueError("Received incompatible devices for jitted computation")).name
    'incompatible-devices'
    >>> hint_for(ValueError("something else")) is None
    True
    """
    text = str(error)
    return next((hint for hint in CATALOGUE if re.search(hint.pattern, text, re.DOTALL)), None)


def is_about_placement(error: BaseException) -> bool:
    """Can this error come from the placement of the inputs, rather than from the function?

    JAX (0.10 to 0.12) raises a KeyError, or fails to lower the program, for an input whose
    type names another mesh.
    """
    hint = hint_for(error)
    known = hint is not None and hint.name in ("incompatible-devices", "context-mesh")
    return known or isinstance(error, KeyError) or "sdy.manual_computation" in str(error)


def add_hint(error: BaseException) -> None:
    """Add the catalogue entry for this error to it as a note, once."""
    hint = hint_for(error)
    if hint is not None and str(hint) not in getattr(error, "__notes__", ()):
        error.add_note(str(hint))
