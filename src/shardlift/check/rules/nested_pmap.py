"""A pmapped function is pmapped again, or called inside another pmapped function.

Since JAX 0.8 pmap does not know the axes of an inner pmap and raises an error: the context mesh
does not match. Use one `shard_map` over a mesh with two axes.
"""

import ast
from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.model import GUIDE, Kind, Match, Rule
from shardlift.source.sites import Role, Usage, surely_mapped
from shardlift.source.values import Known, Located


def visit(file: File) -> Iterator[Match]:
    """pmap of a pmap, two pmap decorators, or a pmapped body that calls a pmapped function."""
    inner = dict(file.mapped_calls)
    mapped = {site.node for site in file.sites}
    for site in file.sites:
        if site.role is not Role.MAP or site.mapped is None or not site.transform.certain:
            continue
        operand = site.mapped.operand
        inside = surely_mapped(operand.file, operand.node) if isinstance(operand, Located) else None
        if inside is not None:
            yield Match(site.node, "pmap of a function that is already pmapped raises an error")
            continue
        function = site.operand if isinstance(site.operand, Known) else site.function
        if function is None or function.file is not file:
            continue
        decorators: list[ast.AST] = getattr(function.node, "decorator_list", [])
        is_decorator = site.usage is Usage.DECORATOR and site.node in decorators
        if is_decorator and not mapped.isdisjoint(decorators[decorators.index(site.node) + 1 :]):
            yield Match(site.node, "a second pmap decorator raises an error")
            continue
        for call in file.index.calls_in[function.node]:
            if call in inner and inner[call].node is not site.node:
                yield Match(call, "calling a pmapped function inside another one raises an error")


RULE = Rule(
    code="SL204",
    summary="a pmap inside a pmap",
    advice="Use one jax.shard_map over a mesh with one axis for each pmap.",
    reference=f"{GUIDE}#valueerror-the-context-mesh-should-match-the-mesh-passed-to-shard-map",
    words=("pmap",),
    bad=(
        "import jax\nf = jax.pmap(jax.pmap(g, axis_name='j'), axis_name='i')  # SL204",
        "from functools import partial\nimport jax\n@partial(jax.pmap, axis_name='i')  # SL204\n"
        "@partial(jax.pmap, axis_name='j')\ndef f(x):\n    return x",
        "import jax\ninner = jax.pmap(lambda x: x)\n@jax.pmap\ndef outer(x):\n"
        "    return inner(x)  # SL204",
    ),
    good=(
        "import jax\nf = jax.pmap(g)\nh = jax.pmap(k)\ny = h(f(x))",
        "import jax\ng = jax.pmap(g)\ng = jax.jit(g)",
        "import jax\nstep = jax.pmap(lambda x: x)\ndef loop(x):\n    return step(x)",
        "import jax\n@jax.pmap\ndef f(x):\n    return g(x)",
    ),
    since=(0, 8),
    replaces="SL201",
    rewritten_as=frozenset({Kind.SITE}),
)
