"""Inference of structures: whether a value is one array or a tuple, as far as the source proves.

A pmapped function may be called with any tree, so a parameter is unknown unless a call shows what
it is. Operators prove a lot: a tuple can be added to a tuple and multiplied by an int, and has no
other arithmetic. Methods of an unknown value prove nothing: a NamedTuple may have a `mean`. Classes
of the project with their own arithmetic are assumed not to be indexed by `[0]`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from shardlift.source.array_functions import (
    ARRAYS,
    ARRAYS_UNLESS,
    ATTRIBUTES,
    FLOATS,
    LIKE_ARGUMENT,
    METHODS,
    NUMBERS,
)
from shardlift.source.certainty import is_certain
from shardlift.source.file import File
from shardlift.source.libraries import TREE_MAPS
from shardlift.source.reaching import all_reaching_bindings
from shardlift.source.scopes import FUNCTIONS
from shardlift.source.structure import (
    Leaf,
    Parts,
    Structure,
    as_arrays,
    can_change,
    combine,
    is_all_leaves,
    join,
    part,
    tuple_of,
)
from shardlift.source.values import External, Instance, Known, Located, Mapped, Partial, Result
from shardlift.source.wrappers import SAME_RESULT, argument_for, is_plain

_VALUE_AND_GRAD = frozenset(
    {"jax.value_and_grad", "equinox.filter_value_and_grad", "flax.nnx.value_and_grad"}
)
_MOST_STEPS = 2_000  # expressions per question
_DEEPEST = 60  # nested expressions


def output_structure(mapped: Mapped, call: ast.Call, file: File | None) -> Structure:
    """The structure that a call of a pmapped function returns; `file` is the file of the call."""
    static = "static_broadcasted_argnums" in mapped.keywords
    traced = mapped.transform.origin.startswith("jax.") and not static
    caller = Caller(Inference(file), call, traced) if file is not None else None
    return Inference(mapped.file).of_mapped(mapped, caller)


@dataclass(frozen=True)
class Caller:
    """A call of a function, where the structures of its arguments are inferred."""

    inference: Inference
    call: ast.Call
    traced: bool = False  # numbers are arrays inside the function

    def structure_of(self, function: Known, name: str) -> Structure:
        """The structure of a parameter."""
        expression = argument_for(function, name, self.call)
        structure = self.inference.of(expression) if expression is not None else None
        return as_arrays(structure) if self.traced else structure


@dataclass
class Inference:
    """Structures of the expressions of one file, for known structures of parameters."""

    file: File
    parameters: Mapping[ast.arg, Structure] = field(default_factory=dict)
    # The structure that a name is assumed to have during a proof, by its bindings.
    assumed: Mapping[frozenset[ast.AST], Leaf] = field(default_factory=dict)
    steps: list[ast.AST] = field(default_factory=list)
    waiting: set[ast.AST] = field(default_factory=set)
    known: dict[ast.AST, Structure] = field(default_factory=dict)

    def of(self, node: ast.expr) -> Structure:
        """The structure of an expression; None if it is not proven."""
        if node in self.known:
            return self.known[node]
        too_much = len(self.waiting) > _DEEPEST or len(self.steps) > _MOST_STEPS
        method = _BY_TYPE.get(type(node))
        if method is None or too_much or node in self.waiting:
            return None
        self.steps.append(node)
        self.waiting.add(node)
        structure = self.known[node] = method(self, node)
        self.waiting.discard(node)
        return structure

    # ---- expressions

    def _constant(self, node: ast.Constant) -> Structure:
        if isinstance(node.value, (float, complex)):
            return Leaf.ARRAY
        return Leaf.NUMBER if isinstance(node.value, int) else None

    def _tuple(self, node: ast.Tuple | ast.List) -> Structure:
        if any(isinstance(element, ast.Starred) for element in node.elts):
            return None
        kind = tuple if isinstance(node, ast.Tuple) else list
        return Parts(kind, dict(enumerate(self.of(element) for element in node.elts)))

    def _dict(self, node: ast.Dict) -> Structure:
        parts: dict[int | str, Structure] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
                return None
            parts[key.value] = self.of(value)
        return Parts(dict, parts)

    def _choice(self, node: ast.IfExp) -> Structure:
        return join([self.of(node.body), self.of(node.orelse)])

    def _bool_op(self, node: ast.BoolOp) -> Structure:
        return join([self.of(value) for value in node.values])

    def _named_expr(self, node: ast.NamedExpr) -> Structure:
        return self.of(node.value)

    def _compare(self, _: ast.Compare) -> Structure:
        return Leaf.NUMBER  # arrays give an array, other values a bool

    def _unary_op(self, node: ast.UnaryOp) -> Structure:
        # No tuple has `-x`, `+x` or `~x`; `not x` is a bool.
        negated = not isinstance(node.op, ast.Not) and self.of(node.operand) is Leaf.ARRAY
        return Leaf.ARRAY if negated else Leaf.NUMBER

    def _bin_op(self, node: ast.BinOp) -> Structure:
        return combine(node.op, self.of(node.left), self.of(node.right))

    def _subscript(self, node: ast.Subscript) -> Structure:
        whole = self.of(node.value)
        if isinstance(whole, Leaf):
            return whole
        key = node.slice.value if isinstance(node.slice, ast.Constant) else None
        return part(whole, key) if isinstance(key, (int, str)) else None

    def _attribute(self, node: ast.Attribute) -> Structure:
        name = self.file.name(node)
        if name is not None:
            return Leaf.ARRAY if name in FLOATS else None
        whole = self.of(node.value)
        return whole if isinstance(whole, Leaf) and node.attr in ATTRIBUTES else None

    # ---- names

    def _name(self, node: ast.Name) -> Structure:
        bound = all_reaching_bindings(self.file.index, node)
        key = frozenset(bound)
        if key in self.assumed:
            return self.assumed[key]
        structure = join(self._bound(binding) for binding in bound)
        if structure is None and len(bound) > 1:
            return self._bound_by_itself(key)
        return self._unless_changed(node, structure) if can_change(structure) else structure

    def _bound_by_itself(self, bound: frozenset[ast.AST]) -> Structure:
        """The structure of `loss` in `loss = 0.0` and, in a loop, `loss = loss + x`.

        It is a leaf if assuming a leaf before an iteration proves a leaf after it.
        """
        for leaf in Leaf:
            inner = replace(self, assumed={**self.assumed, bound: leaf}, known={})
            after = join(inner._bound(binding) for binding in bound)
            if after is leaf or after is Leaf.ARRAY:
                return leaf
        return None

    def _bound(self, node: ast.AST) -> Structure:
        """The structure that one binding gives to its name."""
        if isinstance(node, ast.arg):
            return self.parameters.get(node)
        if not isinstance(node, ast.Name):
            return None
        path: list[int] = []
        target, parents = node, self.file.index.parents
        inner: ast.AST = node
        while isinstance(parent := parents[inner], (ast.Tuple, ast.List)):
            if any(isinstance(element, ast.Starred) for element in parent.elts):
                return None
            path.insert(0, parent.elts.index(inner))  # type: ignore[arg-type]
            inner = parent
        if isinstance(parent, ast.AugAssign):
            result = combine(parent.op, self.of(target), self.of(parent.value))
            return result if isinstance(result, Leaf) else None
        if not isinstance(parent, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) or not parent.value:
            return None
        whole = self.of(parent.value)
        for step in path:  # the rows of an array are arrays
            whole = whole if isinstance(whole, Leaf) else part(whole, step)
        return whole

    def _unless_changed(self, node: ast.Name, structure: Structure) -> Structure:
        """The structure of a list or dict, if no use of its name changes it in place."""
        for use in self.file.index.uses(node):
            parent = self.file.index.parents[use]
            if isinstance(parent, ast.Subscript) and isinstance(parent.ctx, ast.Store):
                structure = _without(structure, parent.slice)
            elif isinstance(use.ctx, ast.Load) and not self._only_reads(use, structure):
                return None
        return structure

    def _only_reads(self, use: ast.expr, structure: Structure) -> bool:
        if not can_change(structure):
            return True
        parent = self.file.index.parents.get(use)
        while isinstance(parent, (ast.Tuple, ast.List, ast.Dict)):
            use, parent = parent, self.file.index.parents.get(parent)
        if isinstance(parent, ast.Subscript) and isinstance(parent.slice, ast.Constant):
            key = parent.slice.value
            loaded = isinstance(parent.ctx, ast.Load) and isinstance(key, (int, str))
            return loaded and self._only_reads(parent, part(structure, key))  # type: ignore[arg-type]
        if isinstance(parent, ast.Call) and use in parent.args:
            name = self.file.called(parent)
            return name in LIKE_ARGUMENT or name in TREE_MAPS
        return isinstance(parent, ast.Return)

    # ---- calls

    def _call(self, node: ast.Call) -> Structure:
        if isinstance(node.func, ast.Attribute) and self.file.name(node.func) is None:
            base = self.of(node.func.value)
            if isinstance(base, Leaf):
                return base if node.func.attr in METHODS else None
        return self._of_called(node.func, Caller(self, node))

    def _of_called(self, function: ast.expr, caller: Caller | None) -> Structure:
        """The structure that the function which an expression refers to returns."""
        value = self.file.only(function) if is_certain(self.file, function) else None
        if isinstance(value, External):
            return caller.inference.library(value.path, caller.call) if caller else None
        if isinstance(value, Mapped):
            return self.of_mapped(value, caller)
        if isinstance(value, Partial):
            inner = value.function
            return self._of_function(inner, None) if isinstance(inner, Known) else None
        if isinstance(value, Result) and value.call.args:
            return self._in(value.file)._of_transform(value, caller)
        if not isinstance(value, Known):
            return None
        method = isinstance(value.file.index.parents.get(value.node), ast.ClassDef)
        owner = self.file.only(function.value) if isinstance(function, ast.Attribute) else None
        return self._of_function(
            value, caller if not method or isinstance(owner, Instance) else None
        )

    def _in(self, file: File) -> Inference:
        return self if file is self.file else Inference(file, {}, {}, self.steps, self.waiting)

    def of_mapped(self, mapped: Mapped, caller: Caller | None) -> Structure:
        """The structure that a pmapped function returns: that of the function itself."""
        if isinstance(mapped.operand, Located):
            return self._in(mapped.operand.file)._of_called(mapped.operand.node, caller)
        return self._of_function(mapped.operand, caller) if mapped.operand is not None else None

    def _of_transform(self, value: Result, caller: Caller | None) -> Structure:
        """The structure that `jax.jit(f)` or `jax.value_and_grad(f)` returns."""
        if value.path in SAME_RESULT:
            return self._of_called(value.call.args[0], caller)
        options = {keyword.arg: keyword.value for keyword in value.call.keywords}
        has_aux = options.get("has_aux", ast.Constant(False))
        understood = None not in options and isinstance(has_aux, ast.Constant)
        if value.path not in _VALUE_AND_GRAD or len(value.call.args) > 2 or not understood:
            return None
        if not has_aux.value:  # type: ignore[attr-defined]
            return tuple_of(Leaf.ARRAY, None)  # the loss is one scalar
        aux = part(self._of_called(value.call.args[0], None), 1)
        return tuple_of(tuple_of(Leaf.ARRAY, aux), None)

    def _of_function(self, function: Known, caller: Caller | None) -> Structure:
        """The structure that a function of the project returns."""
        arguments = function.node.args if isinstance(function.node, FUNCTIONS) else None
        if arguments is None or caller is None:
            return self._of_body(function, {})
        named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        return self._of_body(
            function, {arg: caller.structure_of(function, arg.arg) for arg in named}
        )

    def _of_body(self, function: Known, parameters: Mapping[ast.arg, Structure]) -> Structure:
        if not is_plain(function) or not _always_returns(function):
            return None
        around = set(function.file.index.ancestors(function.node))
        owner = self.file.index.function_around
        seen = {arg: s for arg, s in self.parameters.items() if owner(arg) in around}
        inner = Inference(function.file, {**seen, **parameters}, {}, self.steps, self.waiting)
        return join([inner.of(expression) for expression in function.returns()])

    def library(self, path: str, call: ast.Call) -> Structure:
        """The structure that a library function returns."""
        named = {keyword.arg for keyword in call.keywords}
        if path in ARRAYS:
            return Leaf.ARRAY
        if path in NUMBERS:
            return Leaf.NUMBER
        if path == "builtins.sum" and len(call.args) == 1 and not named:
            return Leaf.NUMBER  # the sum starts with 0, and no tuple can be added to 0
        if path == "builtins.dict" and not call.args and None not in named:
            return Parts(dict, {k.arg or "": self.of(k.value) for k in call.keywords})
        if any(isinstance(arg, ast.Starred) for arg in call.args):
            return None
        if path in ARRAYS_UNLESS:
            least, most, keyword = ARRAYS_UNLESS[path]
            plain = least <= len(call.args) <= most and not named & {None, keyword}
            return Leaf.ARRAY if plain else None
        if path in LIKE_ARGUMENT and len(call.args) > LIKE_ARGUMENT[path]:
            return self.of(call.args[LIKE_ARGUMENT[path]])
        if path in TREE_MAPS and len(call.args) > 1 and not named:
            return self._of_tree_map(call)
        return None

    def _of_tree_map(self, call: ast.Call) -> Structure:
        """The structure of the tree, if the function returns one leaf for each leaf."""
        value, tree = self.file.only(call.args[0]), self.of(call.args[1])
        result: Structure = None
        if isinstance(value, External) and value.path in ARRAYS:
            result = Leaf.ARRAY
        elif isinstance(value, Known) and isinstance(value.node, FUNCTIONS):
            arguments = [*value.node.args.posonlyargs, *value.node.args.args]
            leaves = dict.fromkeys(arguments[: len(call.args) - 1], Leaf.NUMBER)
            result = self._of_body(value, leaves)
        return tree if isinstance(result, Leaf) and is_all_leaves(tree) else None


_BY_TYPE: dict[type[ast.expr], Callable[[Inference, Any], Structure]] = {
    ast.Constant: Inference._constant,
    ast.Tuple: Inference._tuple,
    ast.List: Inference._tuple,
    ast.Dict: Inference._dict,
    ast.IfExp: Inference._choice,
    ast.BoolOp: Inference._bool_op,
    ast.NamedExpr: Inference._named_expr,
    ast.Compare: Inference._compare,
    ast.UnaryOp: Inference._unary_op,
    ast.BinOp: Inference._bin_op,
    ast.Subscript: Inference._subscript,
    ast.Attribute: Inference._attribute,
    ast.Name: Inference._name,
    ast.Call: Inference._call,
}


def _without(structure: Structure, key: ast.expr) -> Structure:
    """The structure of a dict after `d["key"] = value`: the other parts do not change."""
    named = isinstance(key, ast.Constant) and isinstance(key.value, str)
    if not named or not isinstance(structure, Parts) or structure.kind is not dict:
        return None
    return Parts(dict, {**structure.of, key.value: None})  # type: ignore[attr-defined]


def _always_returns(function: Known) -> bool:
    """Whether every path through a function ends in a `return` with a value or a `raise`."""
    if isinstance(function.node, ast.Lambda):
        return True
    statements = function.file.index.within(function.node, ast.Return)
    return all(node.value is not None for node in statements) and _ends(function.node.body)


def _ends(body: list[ast.stmt]) -> bool:
    last = body[-1] if body else None
    if isinstance(last, ast.If):
        return _ends(last.body) and _ends(last.orelse)
    if isinstance(last, ast.With):
        return _ends(last.body)
    if isinstance(last, (ast.Try, ast.TryStar)):
        handled = all(_ends(handler.body) for handler in last.handlers)
        return _ends(last.finalbody) or (_ends(last.orelse or last.body) and handled)
    return isinstance(last, (ast.Return, ast.Raise))
