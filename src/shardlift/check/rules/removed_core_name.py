"""A name of `jax.core`, or another part for libraries, that is gone or has moved."""

from __future__ import annotations

from functools import partial

from shardlift.check.renames import gone
from shardlift.source.model import CHANGELOG, Kind, Level, Rule
from shardlift.source.removed_names import CORE, names

visit = partial(gone, rows=CORE)
RULE = Rule(
    code="SL109",
    level=Level.BROKEN,
    summary="a name of jax.core that is gone or has moved to jax.extend.core",
    advice="Write what the message names.",
    reference=CHANGELOG,
    names=names(CORE),
    bad=(
        "import jax\np = jax.core.Primitive('p')  # SL109",
        "from jax.core import axis_frame  # SL109",
        "from jax.experimental import enable_x64  # SL109",
    ),
    good=(
        "from jax.extend.core import Primitive",
        "import jax\nwith jax.enable_x64(True):\n    pass",
        "from mylib import core\np = core.Primitive('p')",
        "import jax\naval = jax.core.ShapedArray((2,), 'float32')",
    ),
    rewritten_as=frozenset({Kind.NAME}),
)
