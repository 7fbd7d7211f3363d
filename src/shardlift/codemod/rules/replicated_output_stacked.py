"""A pmapped function returns what a collective made equal everywhere, stacked once a device.

By default `out_axes` is 0: the caller gets as many copies as there are devices, and then takes
the first. With `out_axes=None` the output is one replicated value, and reading it is free.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlift.codemod.file import File
from shardlift.codemod.finding import GUIDE, Effect, Match, Rule
from shardlift.codemod.idioms import REDUCTIONS, TREE_MAPS, axis_name, axis_of
from shardlift.codemod.outputs import returned
from shardlift.codemod.sites import Role, Site


def visit(file: File) -> Iterator[Match]:
    """A site without `out_axes` whose function returns a reduction over its axis."""
    for site in file.sites:
        plain = site.transform.origin == "jax.pmap" and not site.otherwise
        if site.role is Role.MAP and plain and "out_axes" not in site.keywords:
            yield from _outputs(site)


def _outputs(site: Site) -> Iterator[Match]:
    if site.mapped is None:
        return
    name = axis_name(site.mapped)
    found = list(returned(site.mapped))
    if name is None or len(found) != 1:
        return
    file, node = found[0]
    if _equal_everywhere(file, node, name):
        yield Match(site.node, f"the output is equal on all devices ({name!r}): out_axes=None")
    elif isinstance(node, ast.Tuple):
        places = [
            place
            for place, part in enumerate(node.elts)
            if _equal_everywhere(file, file.definition(part), name)
        ]
        if places:
            listed = ", ".join(map(str, places))
            axes = ", ".join("None" if n in places else "0" for n in range(len(node.elts)))
            text = f"output {listed} is equal on all devices: out_axes=({axes})"
            yield Match(site.node, text)


def _equal_everywhere(file: File, node: ast.expr, name: object) -> bool:
    if not isinstance(node, ast.Call):
        return False
    called = file.called(node)
    if called in TREE_MAPS and node.args and isinstance(node.args[0], ast.Lambda):
        return _equal_everywhere(file, node.args[0].body, name)
    groups = any(keyword.arg == "axis_index_groups" for keyword in node.keywords)
    return called in REDUCTIONS and axis_of(file, node) == name and not groups


RULE = Rule(
    code="SL504",
    name="replicated-output-stacked",
    effect=Effect.SLOW,
    summary="an output that is equal on all devices comes back stacked",
    advice="Say out_axes=None for it; drop the [0] or unreplicate at the caller.",
    explain=__doc__,
    reference=f"{GUIDE}#option-1-prevent-unintended-sharding-recommended",
    visit=visit,
    words=("pmap",),
    bad=(
        "import jax\nf = jax.pmap(lambda x: jax.lax.pmean(x, 'i'), axis_name='i')  # SL504",
        "import jax\ndef step(s, x):\n    return s, jax.lax.psum(x, 'i')\n"
        "f = jax.pmap(step, axis_name='i')  # SL504",
    ),
    good=(
        "import jax\nf = jax.pmap(lambda x: jax.lax.pmean(x, 'i'), 'i', out_axes=None)",
        "import jax\nf = jax.pmap(lambda x: x + jax.lax.pmean(x, 'i'), axis_name='i')",
        "import jax\nf = jax.pmap(lambda x: jax.lax.pmean(x, 'j'), axis_name='i')",
        "import jax\nf = jax.pmap(lambda x: jax.lax.pmean(x, name), axis_name=name)",
        "import jax\nf = jax.vmap(lambda x: jax.lax.pmean(x, 'i'), axis_name='i')",
    ),
    since=(0, 8),
)
