"""A pmapped function returns a value that is equal on all devices, one copy per device.

By default `out_axes` is 0: the caller gets one copy for each device and reads the first. With
`out_axes=None` the output is one replicated value, and reading it costs nothing.
"""

import ast
from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.idioms import axis_name, first_of_tree_in, is_zero, reduced_axis
from shardlift.source.libraries import TREE_MAPS
from shardlift.source.model import GUIDE, Kind, Level, Match, Rule
from shardlift.source.outputs import fetched_argument, is_array, is_scalar, output_of, returned_at
from shardlift.source.sites import Role, Site
from shardlift.source.values import Output, Value

# A site, and the position of an output in the tuple that it returns; None: it is all of it.
_Place = tuple[ast.AST, int | str | None]
_Reads = dict[_Place, list[ast.AST]]


def visit(file: File) -> Iterator[Match]:
    """Reductions over the axis of a site, where the file reads the first replica."""
    reads: _Reads = {}
    for output, node in _first_replicas(file) if file.sites else ():
        reads.setdefault(output, []).append(node)
    for site in file.sites:
        plain = site.transform.origin == "jax.pmap" and not site.otherwise
        if site.role is Role.MAP and plain and "out_axes" not in site.keywords:
            yield from _outputs(site, reads)


def _first_replicas(file: File) -> Iterator[tuple[_Place, ast.AST]]:
    """The outputs with one replica that is read, and where it is read."""
    outputs: list[tuple[Value | None, ast.AST]] = []
    for node in file.index.nodes(ast.Subscript):
        if is_zero(node.slice):
            fetched = fetched_argument(file, node.value)
            output = output_of(file, fetched or node.value)
            scalar = is_scalar(file, node, output)
            # One number per device may be fetched: that is what `fix` writes.
            if output and not (scalar and fetched) and (scalar or is_array(output)):
                outputs.append((output, node))
    for call, tree in file.unreplications:
        values = file.values(fetched_argument(file, tree) or tree)
        inner = first_of_tree_in(file, call)  # in a function of the project
        at = inner.node if inner is not None and inner.file is file else call
        outputs += [(value, at) for value in values]
    for value, read in outputs:
        if isinstance(value, Output):
            yield (value.mapped.node, value.path[0] if value.path else None), read


def _outputs(site: Site, reads: _Reads) -> Iterator[Match]:
    if site.mapped is None:
        return
    name = axis_name(site.mapped)
    results = returned_at(site.mapped)
    if name is None or len(results) != 1:
        return
    file, node = results[0]
    if _equal_everywhere(file, node, name) and (site.node, None) in reads:
        text = f"the output is equal on all devices ({name!r}): use out_axes=None"
        yield Match(site.node, text, sites=tuple(reads[site.node, None]))
    elif isinstance(node, ast.Tuple):
        places = [
            place
            for place, part in enumerate(node.elts)
            if (site.node, place) in reads and _equal_everywhere(file, file.definition(part), name)
        ]
        if places:
            listed = ", ".join(map(str, places))
            axes = ", ".join("None" if n in places else "0" for n in range(len(node.elts)))
            text = f"output {listed} is equal on all devices: use out_axes=({axes})"
            nodes = tuple(read for place in places for read in reads[site.node, place])
            yield Match(site.node, text, sites=nodes)


def _equal_everywhere(file: File, node: ast.expr, name: object) -> bool:
    if not isinstance(node, ast.Call):
        return False
    if file.called(node) in TREE_MAPS and node.args and isinstance(node.args[0], ast.Lambda):
        return _equal_everywhere(file, node.args[0].body, name)
    return reduced_axis(file, node) == name


RULE = Rule(
    code="SL504",
    level=Level.SLOW,
    summary="an output that is equal on all devices is returned stacked",
    advice="With None in out_axes it has no device axis: remove the [0] in the caller.",
    reference=f"{GUIDE}#option-1-prevent-unintended-sharding-recommended",
    words=("pmap",),
    bad=(
        "import jax\ndef first(tree):\n    return jax.tree.map(lambda x: x[0], tree)\n"
        "f = jax.pmap(lambda x: jax.lax.pmean(x / 2, 'i'), 'i')  # SL504\ny = first(f(x))",
        "import jax\ndef step(s, x):\n    return s, jax.lax.psum(x / 2, 'i')\n"
        "f = jax.pmap(step, axis_name='i')  # SL504\n"
        "s, loss = f(s, x)\nprint(jax.device_get(loss)[0])",
    ),
    good=(
        "import jax\nf = jax.pmap(lambda x: jax.lax.pmean(x, 'i'), 'i')\n"
        "y = float(jax.device_get(f(x))[0])",
        "import jax\nf = jax.pmap(lambda x: jax.lax.pmean(x, 'i'), 'i', out_axes=None)",
        "import jax\nf = jax.pmap(lambda x: jax.lax.pmean((x, x), 'i'), 'i')\ny = f(x)[0]",
        "import jax\nf = jax.pmap(lambda x: jax.lax.pmean(x / 2, 'j'), 'i')\ny = f(x)[0]",
        "import jax\nf = jax.pmap(lambda x: jax.lax.pmean(x, name), axis_name=name)",
    ),
    since=(0, 8),
    rewritten_as=frozenset({Kind.READ, Kind.PLACEMENT}),
)
