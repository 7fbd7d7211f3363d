"""How each expression and statement passes on the values inside of it."""

import ast

from shardlift.rewrite.device_axis.cells import EACH, Cell, CellRole, Point
from shardlift.rewrite.device_axis.followed_program import Indexed
from shardlift.rewrite.device_axis.visitor import Visitor, visit
from shardlift.source.file import File
from shardlift.source.scopes import FUNCTIONS, Function, has_star
from shardlift.source.values import Known

# Attributes and methods of arrays that show their shape or rows.
_OF_ARRAYS = frozenset({
    "shape", "ndim", "size", "T", "at", "sharding", "devices", "addressable_shards", "nbytes",
    "addressable_data", "real", "imag", "mT", "flat", "itemsize", "global_shards",
})  # fmt: skip
# Nodes whose own value is used for its truth at most.
_WithParts = (
    ast.Constant | ast.Expr | ast.Assert | ast.If | ast.While | ast.Try | ast.TryStar
    | ast.ExceptHandler | ast.match_case
)  # fmt: skip
_SHOWS_NOTHING = frozenset({"__name__", "__qualname__", "__module__", "__doc__", "__init__"})


@visit.register
def _parts(node: _WithParts, v: Visitor) -> None:
    """Whatever is inside, one after the other; of a condition, its terms."""
    for child in ast.iter_child_nodes(node):
        for term in child.values if isinstance(child, ast.BoolOp) else [child]:
            negated = isinstance(term, ast.UnaryOp) and isinstance(term.op, ast.Not)
            v.value(term.operand if negated else term)  # type: ignore[attr-defined]


@visit.register
def _name(node: ast.Name, v: Visitor) -> Cell:
    v.hand_on(node)
    return v.lookup(node)


@visit.register
def _choice(node: ast.IfExp | ast.BoolOp, v: Visitor) -> Cell:
    values, cell = node.values if isinstance(node, ast.BoolOp) else [node.body, node.orelse], Cell()
    if isinstance(node, ast.IfExp):
        v.value(node.test)
    for value in values:
        cell = cell.unify(v.value(value))
    return cell


@visit.register
def _compare(node: ast.Compare, v: Visitor) -> Cell:
    of_objects = (ast.Is, ast.IsNot, *((ast.In, ast.NotIn) if _text(node.left) else ()))
    if all(isinstance(op, of_objects) for op in node.ops):  # the keys of a dict stay
        v.block([node.left, *node.comparators])
    else:
        v.lose_children(node)
    return Cell()


def _text(node: ast.expr | None) -> str | None:
    """The string that a node is; None for any other node."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


@visit.register
def _sequence(node: ast.Tuple | ast.List, v: Visitor) -> Cell:
    is_list = isinstance(node, ast.List)
    if not is_list and has_star(node.elts):
        v.lose_children(node)
        return v.untraced(node)
    cell = Cell()
    for number, element in enumerate(node.elts):
        is_starred = isinstance(element, ast.Starred)
        given = v.value(element.value if isinstance(element, ast.Starred) else element)
        cell.part(EACH if is_list else number).unify(given.each() if is_starred else given)
    return cell


@visit.register
def _dict(node: ast.Dict, v: Visitor) -> Cell:
    cell, texts = Cell(), [_text(key) for key in node.keys]
    if None in texts:  # a computed key, or a dict that is unpacked: all that it holds is one class
        cell.collapse()
    for key, text, value in zip(node.keys, texts, node.values, strict=True):
        if text is None:
            v.lose(key, "is the key of a dict")
        cell.part(text if text is not None else EACH).unify(v.value(value))
    return cell


@visit.register
def _yield(node: ast.Yield | ast.YieldFrom, v: Visitor) -> Cell:
    cell = v.value(node.value) if node.value is not None else Cell()
    if v.called is not None:
        element = cell.each() if isinstance(node, ast.YieldFrom) else cell
        v.called.result.part(EACH).unify(element)
    return v.untraced(node)


@visit.register
def _comprehension(
    node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, v: Visitor
) -> Cell:
    for generator in node.generators:
        v.bind(generator.target, v.value(generator.iter).each())
        v.block(generator.ifs)
    if isinstance(node, ast.DictComp):  # its keys are computed: its values are one class with it
        v.lose(node.key, "is the key of a dict")
        return v.value(node.value).tree()
    cell = Cell()
    cell.part(EACH).unify(v.value(node.elt))
    return cell


@visit.register
def _subscript(node: ast.Subscript, v: Visitor) -> Cell:
    base, index = v.value(node.value).root(), node.slice
    if (text := _text(index)) is not None:
        return base.part(text)
    if isinstance(index, ast.Constant) and type(index.value) is int:
        if base.has_elements():
            return base.part(index.value)
        result = Cell()  # an element of a tuple or list, or the first row of an array
        v.program.indexed.append(Indexed(v.at(node), node, base, index.value, result))
        return result
    v.lose(index, "is an index")
    v.escape(base, node, f"is indexed in `{v.file.brief(node)}`")
    return v.untraced(node)


@visit.register
def _attribute(node: ast.Attribute, v: Visitor) -> Cell:
    owner, shows_all = v.instance(node.value), _shows_attributes(v.file, node)
    v.hand_on(node)
    if owner is not None:
        v.base(node)
        if shows_all:
            v.program.hand_on(owner, v.at(node))
        if any(isinstance(value, Known) for value in v.file.values(node)):
            return v.untraced(node)  # a method, or a property
        return v.program.attribute(owner.node, node.attr, v.at(node))
    module = v.program.module_of(v.file, node.value)
    if module is not None and node.attr in module.index.module.names:
        return v.program.every_binding(module, module.index.module, node.attr)
    v.program.unresolved_names.setdefault(node.attr, v.at(node))
    base = v.value(node.value)
    if node.attr == "dtype":
        return v.untraced(node)
    if node.attr in _OF_ARRAYS:
        v.escape(base, node, f"`{v.file.brief(node)}` shows its shape")
        return v.untraced(node)
    return base.part(node.attr)


def _shows_attributes(file: File, node: ast.Attribute) -> bool:
    """`self.__dict__` and the like; not `self.__class__.__name__`."""
    names = {node.attr, getattr(file.index.parents.get(node), "attr", "")}
    is_special = node.attr.startswith("__") and node.attr.endswith("__")
    return is_special and not names & _SHOWS_NOTHING


# ---- statements


@visit.register
def _assign(node: ast.Assign | ast.AnnAssign | ast.NamedExpr, v: Visitor) -> Cell:
    cell = v.value(node.value) if node.value is not None else Cell()
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        v.bind(target, cell)
    return cell


@visit.register
def _augmented_assign(node: ast.AugAssign, v: Visitor) -> None:
    why = f"is used in `{v.file.brief(node)}`"
    v.lose(node.value, why)
    target = node.target
    old = v.lookup(target) if isinstance(target, ast.Name) else v.value(target)
    v.escape(old, node, why)
    v.bind(target, v.untraced(node))


@visit.register
def _return(node: ast.Return, v: Visitor) -> None:
    if node.value is not None:
        cell = v.value(node.value)
        if v.called is not None:
            v.called.result.unify(cell)


@visit.register
def _delete(node: ast.Delete, v: Visitor) -> None:
    for target in node.targets:
        v.lose_children(target)


@visit.register
def _function(node: Function, v: Visitor) -> None:
    """Decorators and defaults, then the body; the cells of parameters connect it with its calls."""
    for decorator in getattr(node, "decorator_list", ()):
        if decorator in v.program.sites:
            site = v.program.sites[decorator]
            cell = Cell().add_made(Point(CellRole.MAPPED, v.at(decorator), site=site))
            v.program.give(node, cell)
            v.program.mapped.append((site, cell))
            v.program.hand_on(Known(node, v.file), v.at(decorator))
        else:
            v.lose(decorator, "is a decorator")
    for argument, default in _defaults(node.args):
        v.lose(default, "is the default of a parameter")
        # A display of nothing has no arrays.
        if not isinstance(default, ast.Constant) and ast.unparse(default) not in ("()", "[]", "{}"):
            v.program.binding(argument).add_made(Point(CellRole.ELSEWHERE, v.at(default)))
    called = v.program.function(Known(node, v.file))
    inner = Visitor(v.program, v.file, called)
    if isinstance(node, ast.Lambda):
        called.result.unify(inner.value(node.body))
    else:
        inner.block(node.body)


def _defaults(arguments: ast.arguments) -> list[tuple[ast.arg, ast.expr]]:
    positional = [*arguments.posonlyargs, *arguments.args]
    first = len(positional) - len(arguments.defaults)
    named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    pairs = [*zip(positional[first:], arguments.defaults, strict=True), *named]
    return [(argument, default) for argument, default in pairs if default is not None]


@visit.register
def _class(node: ast.ClassDef, v: Visitor) -> None:
    for child in (*node.decorator_list, *node.bases, *(k.value for k in node.keywords)):
        v.lose_children(child)
    v.block(node.body)
    for name, bound in v.file.index.opens[node].names.items():
        for binding in (b for b in bound if not isinstance(b, FUNCTIONS)):
            cell = v.program.bound(v.file, binding)
            v.escape(cell, binding, f"is the attribute {name} of a class")
            value = getattr(v.file.index.parents.get(binding), "value", None)
            if value is not None and not isinstance(value, ast.Constant):  # all objects have it
                cell = v.program.attribute(node, name, v.at(binding))
                cell.add_made(Point(CellRole.ELSEWHERE, v.at(binding)))


@visit.register
def _for(node: ast.For | ast.AsyncFor, v: Visitor) -> None:
    v.bind(node.target, v.value(node.iter).each())
    v.block([*node.body, *node.orelse])


@visit.register
def _with(node: ast.With | ast.AsyncWith, v: Visitor) -> None:
    for item in node.items:
        v.lose(item.context_expr, "is the context of a with")
        if item.optional_vars is not None:
            v.bind(item.optional_vars, v.untraced(item.context_expr))
    v.block(node.body)


@visit.register
def _match(node: ast.Match, v: Visitor) -> None:
    v.lose(node.subject, "is matched")
    v.block(node.cases)
