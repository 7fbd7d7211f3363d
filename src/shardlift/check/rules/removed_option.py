"""A configuration option of the pmap era that JAX no longer has: setting it raises."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.guarded import is_guarded
from shardlift.source.model import CHANGELOG, Kind, Level, Match, Rule
from shardlift.source.removed_names import OPTIONS
from shardlift.source.statements import delete_setting


def visit(file: File) -> Iterator[Match]:
    """`jax.config.update("option", …)` with such an option."""
    for call in file.calls_of("jax.config.update"):
        if not call.args or not isinstance(call.args[0], ast.Constant):
            continue
        option = call.args[0].value
        if not isinstance(option, str) or option not in OPTIONS or OPTIONS[option] > file.target:
            continue
        if not is_guarded(file, call, option):
            release = ".".join(map(str, OPTIONS[option]))
            text = f"the option {option} is gone since JAX {release}: it raises"
            yield Match(call.args[0], text, delete_setting(file, call.args[0]))


RULE = Rule(
    code="SL113",
    level=Level.BROKEN,
    summary="a configuration option that JAX no longer has",
    advice="Take it out.",
    reference=CHANGELOG,
    words=("config",),
    pattern=re.compile(rf"['\"](?:{'|'.join(OPTIONS)})['\"]".encode()),
    bad=(
        "import jax\njax.config.update('jax_pmap_no_rank_reduction', True)  # SL113",
        "from jax import config\nconfig.update('jax_array', True)  # SL113",
    ),
    good=(
        "settings.update('jax_array', True)",
        "import jax\nif hasattr(jax.config, 'jax_array'):\n"
        "    jax.config.update('jax_array', True)",
        "import jax\njax.config.update('jax_array', 1) if 'jax_array' in jax.config.values else 0",
        "import jax\nif jax.__version_info__ < (0, 4):\n    jax.config.update('jax_array', True)",
    ),
    rewritten_as=frozenset({Kind.NAME}),
)
