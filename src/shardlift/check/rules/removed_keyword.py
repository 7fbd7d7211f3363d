"""A keyword argument that a function of JAX no longer has: the call raises TypeError.

`jnp.clip(x, a_min=0)`, `jnp.reshape(x, newshape=s)`, `pjit(f, in_axis_resources=s)` and others. The
functions of NumPy with the same names keep theirs. `jnp.broadcast_to` has no lists since JAX 0.3.2.
"""

import ast
import re
from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.guarded import is_guarded
from shardlift.source.model import CHANGELOG, Edit, Kind, Match, Rule, dotted
from shardlift.source.removed_names import BY_POSITION, KEYWORD_ROWS, KEYWORDS
from shardlift.source.scopes import end, has_star, position
from shardlift.source.values import External, Instance, Known

_CLIP, _BROADCAST = "jax.numpy.clip", "jax.numpy.broadcast_to"
# What follows the array.
_BY_POSITION = {_CLIP: ("a_min", "a_max"), "jax.numpy.reshape": ("newshape", "order")}


def visit(file: File) -> Iterator[Match]:
    """Calls of the functions, partials of them, and the method `clip` of arrays."""
    for call, function in _calls(file):
        gone, renamed = KEYWORDS[function]
        if gone > file.target or is_guarded(file, call, function):
            continue
        for keyword in call.keywords:
            if keyword.arg in renamed:
                row = KEYWORD_ROWS[function, keyword.arg]
                edits = _edits(file, call, keyword, renamed[keyword.arg])
                name, way = row.name, row.note
                if (instead := _by_position(file, call, function)) is not None:
                    edits, name, way = (_rename(file, keyword, instead),), "", BY_POSITION
                said = f"{function} has no keyword {keyword.arg} since JAX {dotted(gone)}: {way}"
                yield Match(keyword, said, edits, name=name)
    for call in file.calls_of(_BROADCAST):
        array = call.args[0] if call.args else None
        if isinstance(array, (ast.List, ast.Tuple)) and not is_guarded(file, call, _BROADCAST):
            module = file.text(call.func).rpartition(".")[0]
            edits = (file.replace(array, f"{module}.array({file.text(array)})"),) if module else ()
            yield Match(array, f"{_BROADCAST} takes no list since JAX 0.3.2: pass an array", edits)


def _calls(file: File) -> Iterator[tuple[ast.Call, str]]:
    for function in KEYWORDS:
        yield from ((call, function) for call in file.calls_of(function))
    for call in file.calls_of("functools.partial"):
        function = file.name(call.args[0]) or "" if call.args else ""
        if function in KEYWORDS:
            yield call, function
    for method in file.index.attributes["clip"]:
        parent = file.index.parents[method]
        if isinstance(parent, ast.Call) and parent.func is method and _is_of_array(file, parent):
            yield parent, _CLIP


def _is_of_array(file: File, call: ast.Call) -> bool:
    """Whether `x.clip(a_min=0)` can only be a method: the arrays of NumPy have no such keyword."""
    base = call.func.value if isinstance(call.func, ast.Attribute) else call.func
    known = any(isinstance(value, (External, Instance, Known)) for value in file.values(base))
    return not known and not call.args and not any(k.arg == "a" for k in call.keywords)


def _edits(file: File, call: ast.Call, keyword: ast.keyword, new: str) -> tuple[Edit, ...]:
    if new == "-":  # with the comma before it
        before = [part for part in (*call.args, *call.keywords) if end(part) <= position(keyword)]
        if not before or "#" in file.text(call):
            return ()
        return (Edit(file.stretch(*max(map(end, before)), *end(keyword)), ""),)
    if not new:
        is_first = not call.args and keyword is call.keywords[0]
        return (file.replace(keyword, file.text(keyword.value)),) if is_first else ()
    if any(other.arg == new for other in call.keywords):
        return ()
    return (_rename(file, keyword, f"{new}="),)


def _rename(file: File, keyword: ast.keyword, new: str) -> Edit:
    """Other text in the place of `name=`."""
    return Edit(file.stretch(*position(keyword), *position(keyword.value)), new)


def _by_position(file: File, call: ast.Call, function: str) -> str | None:
    """What stands before the values of keywords that are passed by position, right on every JAX.

    None if other arguments stand in between.
    """
    order, called = _BY_POSITION.get(function, ()), file.called(call)
    if called == "functools.partial" or has_star(call.args):
        return None
    given = len(call.args) + (called != function)  # the array of a method comes first
    names = [keyword.arg for keyword in call.keywords]
    if names == ["a_max"] and given == 1:
        return "None, "
    return "" if given and names == [*order[given - 1 :]][: len(names)] else None


RULE = Rule(
    code="SL115",
    summary="a keyword argument that a function of JAX no longer has",
    advice="Change the call as the message says.",
    reference=CHANGELOG,
    names=(*KEYWORDS, _BROADCAST),
    words=("a_min", "a_max", "broadcast_to"),
    pattern=re.compile(
        rb"\b(?:clip\s*\(\s*a|%s)\s*=|broadcast_to\s*\(\s*[\[(]"
        % b"|".join(k.encode() for _, names in KEYWORDS.values() for k in names if k != "a")
    ),
    bad=(
        "import jax.numpy as jnp\ny = jnp.clip(x, a_min=0.0, a_max=1.0)  # SL115\n",
        "import jax.numpy as jnp\ny = jnp.clip(a=x, max=1.0)  # SL115\n",
        "import functools, jax\nc = functools.partial(jax.numpy.clip, a_min=0.0)  # SL115\n",
        "import jax\ny = jax.lax.sort(x).clip(a_min=0)  # SL115\n",
        "import jax.numpy as jnp\ny = jnp.broadcast_to([1e10], s)  # SL115\n",
    ),
    good=(
        "import jax\nimport numpy as np\ny = np.clip(x, a_min=0.0, a_max=1.0)\n",
        "import jax\ndef f(xp, x):\n    return xp.clip(x, a_min=0.0)\n",
        "import jax\nclass A:\n    def clip(self, a_min):\n        return a_min\n"
        "y = A().clip(a_min=0)\n",
        "import jax.numpy as jnp\ny = jnp.clip(x, **{'a_min': 0.0})\n",
        "import jax.numpy as jnp\ny = jnp.broadcast_to(1e10, s)\n",
        "import jax\nif jax.__version_info__ < (0, 4):\n    f = jax.remat(f, concrete=True)\n",
    ),
    rewritten_as=frozenset({Kind.NAME}),
)
