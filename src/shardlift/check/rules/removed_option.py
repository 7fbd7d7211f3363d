"""A configuration option of the pmap era that JAX no longer has: setting it raises."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.guarded import is_guarded
from shardlift.source.model import CHANGELOG, Kind, Level, Match, Rule, Version
from shardlift.source.statements import delete_setting

GONE: dict[str, Version] = {
    "jax_pmap_no_rank_reduction": (0, 9),
    "jax_array": (0, 4, 14),
    "jax_jit_pjit_api_merge": (0, 4, 14),
    "jax_parallel_functions_output_gda": (0, 4, 26),
    "jax_eager_pmap": (0, 6),
    "jax_data_dependent_tracing_fallback": (0, 6),
    "jax_spmd_mode": (0, 6),
    "jax_coordination_service": (0, 4, 16),
    "jax_enable_memories": (0, 5),
    "jax_omnistaging": (0, 4),
    "jax_dynamic_shapes": (0, 10),
    "jax_cpu_enable_gloo_collectives": (0, 8),  # gloo is the default
    "jax_collectives_common_channel_id": (0, 9),
    "jax_safer_randint": (0, 9),  # always on
    "jax_remat_opt_barrier": (0, 6),
    "jax_host_callback_ad_transforms": (0, 4, 17),
    "jax_host_callback_inline": (0, 4, 17),
    "jax_host_callback_outfeed": (0, 4, 17),
}


def visit(file: File) -> Iterator[Match]:
    """`jax.config.update("option", …)` with such an option."""
    for call in file.index.nodes(ast.Call):
        if not call.args or not isinstance(call.args[0], ast.Constant):
            continue
        option = call.args[0].value
        if not isinstance(option, str) or option not in GONE or GONE[option] > file.target:
            continue
        if file.called(call) == "jax.config.update" and not is_guarded(file, call, option):
            release = ".".join(map(str, GONE[option]))
            text = f"the option {option} is gone since JAX {release}: it raises"
            yield Match(call.args[0], text, delete_setting(file, call.args[0]))


RULE = Rule(
    code="SL113",
    name="removed-option",
    level=Level.BROKEN,
    summary="a configuration option that JAX no longer has",
    advice="Take it out.",
    explain=__doc__,
    reference=CHANGELOG,
    visit=visit,
    words=tuple(GONE),
    bad=(
        "import jax\njax.config.update('jax_pmap_no_rank_reduction', True)  # SL113",
        "from jax import config\nconfig.update('jax_array', True)  # SL113",
    ),
    good=(
        "import jax\njax.config.update('jax_enable_x64', True)",
        "settings.update('jax_array', True)",
        "import jax\nif hasattr(jax.config, 'jax_array'):\n"
        "    jax.config.update('jax_array', True)",
        "text = 'jax_eager_pmap'",
        "import jax\nif jax.__version_info__ < (0, 4):\n    jax.config.update('jax_array', True)",
    ),
    rewritten_as=frozenset({Kind.NAME}),
)
