"""The plain primitives: functions of their operands and of nothing else.

The names in `primitives.toml` were checked one by one (2026-11: jax 0.10.2, 0.12.0). A primitive
that is neither there nor has a rule is unknown, and its outputs are not proven: a primitive of a
later JAX makes the proof weaker, never wrong.

Plain means that the same program on equal operands gives equal bits on devices of one kind. XLA
promises it for everything except scatters, and some convolutions and reductions on GPUs, which may
run in any order unless ``--xla_gpu_deterministic_ops`` is set.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Any

# Now: imported in the middle of a run, it makes JAX trace every program once more (0.12.0).
from jax.extend.core import Primitive

_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
PLAIN = frozenset(" ".join(_TABLE["plain"].values()).split())
WITH_FUNCTION = frozenset(_TABLE["with_function"]["names"].split())
IN_FUNCTIONS = PLAIN | WITH_FUNCTION | {"cond", "jit", "scan", "while"}  # what these may use
OPAQUE: dict[str, str] = _TABLE["opaque"]  # why the outputs are not proven

_owned: dict[str, set[Any]] = {}  # primitives that modules of JAX hold, by name
_modules: set[str] = set()  # the modules that were looked at


def is_jax_primitive(primitive: Any) -> bool:
    """Is it JAX's own? Not if it only has the name of one.

    A primitive of JAX is an attribute of the module that made it. Few of these are public, and some
    modules are imported late.
    """
    if primitive not in _owned.get(primitive.name, ()):
        _look_for_primitives()
    return primitive in _owned.get(primitive.name, ())


def _look_for_primitives() -> None:
    for name, module in list(sys.modules.items()):
        if name not in _modules and (name == "jax" or name.startswith("jax.")):
            _modules.add(name)
            for value in list(vars(module).values()):
                if isinstance(value, Primitive):
                    _owned.setdefault(value.name, set()).add(value)
