"""A configuration option of the pmap era that JAX no longer has: setting or reading it raises.

One that is still there takes only strings since JAX 0.4.31: `jax_default_matmul_precision`.
"""

import ast
import re
from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.guarded import is_guarded
from shardlift.source.model import CHANGELOG, Edit, Kind, Match, Rule, dotted
from shardlift.source.removed_names import OPTIONS
from shardlift.source.scopes import position
from shardlift.source.statements import delete_setting, string

_PRECISION = "jax_default_matmul_precision"
# Options whose behaviour is all there is now.
_ALWAYS_ON = frozenset({"jax_array", "jax_omnistaging", "jax_jit_pjit_api_merge"})


def visit(file: File) -> Iterator[Match]:
    """`jax.config.update("option", …)` and `jax.config.option` with such an option."""
    gone = {option for option, release in OPTIONS.items() if release <= file.target}
    for call in file.calls_of("jax.config.update"):
        if not call.args or not isinstance(call.args[0], ast.Constant):
            continue
        option = call.args[0].value
        if isinstance(option, str) and option in gone and not is_guarded(file, call, option):
            yield Match(call.args[0], _text(option), delete_setting(file, call.args[0]))
        name = (file.name(call.args[1]) or "") if option == _PRECISION and call.args[1:] else ""
        if name.startswith("jax.lax.Precision.") and file.target >= (0, 4, 31):
            text = string(file, name.rpartition(".")[2].lower())
            edits = (file.replace(call.args[1], text),)
            yield Match(call.args[1], f"the option takes a string since JAX 0.4.31: {text}", edits)
    for node in (node for option in sorted(gone) for node in file.index.attributes.get(option, ())):
        if file.name(node.value) == "jax.config" and not is_guarded(file, node, node.attr):
            yield Match(node, _text(node.attr), _without_question(file, node))


def _text(option: str) -> str:
    return f"the option {option} is gone since JAX {dotted(OPTIONS[option])}: it raises"


def _without_question(file: File, option: ast.Attribute) -> tuple[Edit, ...]:
    """`if other:` for `if jax.config.option and other:`, with an option that is always on."""
    test = file.index.parents.get(option)
    if option.attr not in _ALWAYS_ON or not isinstance(test, ast.BoolOp):
        return ()
    if not isinstance(test.op, ast.And) or test.values[0] is not option:
        return ()
    start, following = position(option), position(test.values[1])
    return (Edit(file.stretch(*start, *following), ""),)


RULE = Rule(
    code="SL113",
    summary="a configuration option that JAX no longer has",
    advice="Take it out, or change it as the message says.",
    reference=CHANGELOG,
    words=("config",),
    pattern=re.compile(rf"\b(?:{'|'.join((*OPTIONS, _PRECISION))})\b".encode()),
    bad=(
        "import jax\njax.config.update('jax_pmap_no_rank_reduction', True)  # SL113",
        "from jax import config\nconfig.update('jax_array', True)  # SL113",
        "import jax\nif jax.config.jax_array and x:  # SL113\n    y = 1",
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
