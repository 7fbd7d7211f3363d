"""JAX is asked for its devices before `jax.distributed.initialize` is called.

The first such call starts the backend for this process alone, and `initialize` then raises an
error.
"""

import ast
from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.model import MULTI_PROCESS, Match, Rule
from shardlift.source.reaching import guards
from shardlift.source.scopes import position
from shardlift.source.sites import scope_name

_NAMES = (
    "devices local_devices device_count local_device_count process_index process_count "
    "default_backend random.PRNGKey random.key device_put"
)
_STARTS = frozenset(f"jax.{name}" for name in _NAMES.split())


def visit(file: File) -> Iterator[Match]:
    """Calls above `initialize` that start the backend, in the same function or module body."""
    for start in file.calls_of("jax.distributed.initialize"):
        around = set(guards(file.index, start))
        for call in file.calls_of(*_STARTS):
            above = position(call) < position(start)
            beside = above and scope_name(file, call) == scope_name(file, start)
            later = any(isinstance(parent, ast.Lambda) for parent in file.index.ancestors(call))
            if beside and not later and set(guards(file.index, call)) <= around:
                text = f"{file.brief(call)} starts the backend before initialize() is called"
                yield Match(call, text)


RULE = Rule(
    code="SL607",
    summary="JAX is used before jax.distributed.initialize",
    advice="Call jax.distributed.initialize() first.",
    reference=MULTI_PROCESS,
    names=("jax.distributed.initialize",),
    bad=(
        "import jax\nn = jax.device_count()  # SL607\njax.distributed.initialize()",
        "import jax\ndef main():\n    key = jax.random.PRNGKey(0)  # SL607\n"
        "    jax.distributed.initialize()",
    ),
    good=(
        "import jax\njax.distributed.initialize()\nn = jax.device_count()",
        "import jax\ndef count():\n    return jax.device_count()\njax.distributed.initialize()",
        "import jax\nif debug:\n    print(jax.devices())\nelse:\n    jax.distributed.initialize()",
    ),
)
