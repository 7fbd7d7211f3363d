"""The option for the old pmap, `jax_pmap_shmap_merge`, was removed in JAX 0.10.

Setting or reading the option raises an error. The environment variable is ignored without a
warning, and the program runs with the new pmap.
"""

import ast
from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.guarded import is_guarded
from shardlift.source.model import GUIDE, Kind, Match, Rule
from shardlift.source.scopes import last_name
from shardlift.source.statements import delete_setting

_OPTION, _VARIABLE = "jax_pmap_shmap_merge", "JAX_PMAP_SHMAP_MERGE"


def visit(file: File) -> Iterator[Match]:
    """The option as a string or an attribute, and the variable as a string."""
    for node in file.index.nodes(ast.Constant):
        is_option = node.value == _OPTION and _is_argument(file, node)
        if is_option and not is_guarded(file, node, _OPTION):
            text = f"the option {_OPTION} was removed in JAX 0.10: using it raises an error"
            yield Match(node, text, delete_setting(file, node))
        elif isinstance(node.value, str) and f"--{_OPTION}" in node.value:
            if _is_value(file, node):
                yield Match(node, f"the flag --{_OPTION} was removed in JAX 0.10")
        elif node.value == _VARIABLE and _is_value(file, node):
            text = f"the variable {_VARIABLE} is ignored since JAX 0.10"
            yield Match(node, text, delete_setting(file, node))
    for attribute in file.index.nodes(ast.Attribute):
        is_option = attribute.attr == _OPTION and file.name(attribute) == f"jax.config.{_OPTION}"
        if is_option and not is_guarded(file, attribute, _OPTION):
            yield Match(attribute, f"the option {_OPTION} was removed in JAX 0.10")


def _is_argument(file: File, node: ast.AST) -> bool:
    """Whether a string is the option in `config.update("…", …)` or `FLAGS.read("…")`."""
    parent = file.index.parents.get(node)
    if not isinstance(parent, ast.Call) or node not in parent.args:
        return False
    return getattr(parent.func, "attr", None) in ("update", "read")


def _is_value(file: File, node: ast.AST) -> bool:
    """Whether a string is a key, an element or an argument: not a docstring or a message."""
    parent = file.index.parents.get(node)
    if isinstance(parent, ast.Call):
        setters = ("setdefault", "putenv", "setenv", "update", "append", "pop", "get")
        return last_name(parent.func) in setters
    return isinstance(parent, (ast.Subscript, ast.Dict, ast.List, ast.Tuple))


RULE = Rule(
    code="SL104",
    summary="the option for the old pmap, removed in JAX 0.10",
    advice="Remove it; other rules report what it hid.",
    reference=f"{GUIDE}#help-fix-me-now",
    words=("pmap_shmap_merge", "PMAP_SHMAP_MERGE"),
    bad=(
        'import jax\nif jax.config.read("jax_pmap_shmap_merge"):  # SL104\n'
        '    jax.config.update("jax_pmap_shmap_merge", False)  # SL104',
        'import os\nos.environ["JAX_PMAP_SHMAP_MERGE"] = "0"  # SL104',
        "import jax\nold = not jax.config.jax_pmap_shmap_merge  # SL104",
        'argv = ["train.py", "--jax_pmap_shmap_merge=false"]  # SL104',
    ),
    good=(
        '"""Set JAX_PMAP_SHMAP_MERGE to 0."""',
        'print("JAX_PMAP_SHMAP_MERGE")',
        "import jax\nif hasattr(jax.config, 'jax_pmap_shmap_merge'):\n"
        "    jax.config.update('jax_pmap_shmap_merge', False)",
        "import jax\ntry:\n    jax.config.update('jax_pmap_shmap_merge', False)\n"
        "except AttributeError:\n    pass",
        "# jax.config.update('jax_pmap_shmap_merge', False)",
    ),
    since=(0, 10),
    rewritten_as=frozenset({Kind.NAME}),
)
