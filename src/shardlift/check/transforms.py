"""Pmapped functions that run inside another transform of JAX."""

import ast
from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.mentions import is_decorator
from shardlift.source.model import Edit, Match
from shardlift.source.scopes import FUNCTIONS
from shardlift.source.sites import Usage, function_of, surely_mapped
from shardlift.source.statements import line_bytes, newline
from shardlift.source.values import External, Mapped, Partial, Result

# The positions of the functions that each transform takes.
TRANSFORMS = {
    **dict.fromkeys(("jax.jit", "jax.vmap", "jax.grad", "jax.value_and_grad"), (0,)),
    **dict.fromkeys(("jax.checkpoint", "jax.remat", "jax.jvp", "jax.vjp", "jax.linearize"), (0,)),
    **dict.fromkeys(("jax.lax.scan", "jax.lax.map"), (0,)),
    "jax.lax.fori_loop": (2,),
    "jax.lax.while_loop": (0, 1),
    "jax.lax.cond": (1, 2),
}


def matches_under_transform(file: File, message: str) -> Iterator[Match]:
    """Each place where a pmapped function runs inside a transform, which the message names."""
    for node, transform, mapped in _mapped_under_transform(file):
        sites = (mapped.node,) if mapped.file is file else ()
        yield Match(node, message.format(transform), _without_jit(file, node), sites=sites)


def _mapped_under_transform(file: File) -> Iterator[tuple[ast.AST, str, Mapped]]:
    """Each place where a pmapped function runs inside a transform, and the two."""
    calls = dict(file.mapped_calls)
    bodies: list[tuple[ast.AST, str]] = []
    for name, places in TRANSFORMS.items():
        for call in file.calls_of(name):
            for operand in (call.args[place] for place in places if place < len(call.args)):
                function = function_of(file, operand)
                if (mapped := surely_mapped(file, operand)) is not None:
                    yield call, name, mapped
                elif function is not None and function.file is file:
                    bodies.append((function.node, name))
    decorated = {s.node: s.mapped for s in file.sites if s.usage is Usage.DECORATOR}
    for definition in file.index.nodes(ast.FunctionDef):
        mapped = None  # by a decorator below
        for decorator in reversed(definition.decorator_list):
            if (transform := decorating_transform(file, decorator)) is not None:
                bodies.append((definition, transform))
                if mapped is not None and mapped.transform.certain:
                    yield decorator, transform, mapped
            mapped = decorated.get(decorator, mapped)
    for body, transform in bodies:
        for inner in file.index.calls_in[body] if isinstance(body, FUNCTIONS) else ():
            if inner in calls:
                yield inner, transform, calls[inner]


def _without_jit(file: File, node: ast.AST) -> tuple[Edit, ...]:
    """`jax.pmap(f)` for `jax.jit(jax.pmap(f))`, in decorators too: the jit has nothing to do."""
    if isinstance(node, ast.expr) and is_decorator(file, node):
        comment = line_bytes(file, node.lineno)[node.end_col_offset :].decode().strip()
        kept = f"{file.margin(node.lineno)}{comment}{newline(file)}" if comment else ""
        is_plain = file.only(node) == External("jax.jit")
        return (Edit(file.stretch(node.lineno, 0, node.lineno + 1, 0), kept),) if is_plain else ()
    if not isinstance(node, ast.Call) or file.called(node) != "jax.jit":
        return ()
    if len(node.args) != 1 or node.keywords or not isinstance(node.args[0], ast.Call | ast.Name):
        return ()
    (inner,) = node.args
    lines = file.text(inner).split(f"\n{file.margin(inner.lineno)}")  # which move to the left
    moved = f"\n{file.margin(node.lineno)}".join(lines)
    return (file.replace(node, moved),) if surely_mapped(file, inner) is not None else ()


def decorating_transform(file: File, decorator: ast.expr) -> str | None:
    """The transform that a decorator applies: `@jax.jit`, `@partial(jax.jit, …)`, `@jax.jit(…)`."""
    value = file.only(decorator)
    if isinstance(value, Partial):
        value = value.function
    path = value.path if isinstance(value, (External, Result)) else None
    return path if path in TRANSFORMS and TRANSFORMS[path] == (0,) else None
