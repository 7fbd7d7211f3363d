"""How a state is written whose fields have several layouts: with a field replaced, and as specs."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from shardlift.migrate.call_format import Argument, CallText, Style
from shardlift.migrate.device_axis.cells import Cell, Role
from shardlift.source.file import File
from shardlift.source.values import Known

_NAMED_TUPLES = frozenset({"typing.NamedTuple", "typing_extensions.NamedTuple"})
_WITH_REPLACE = frozenset(
    {
        "chex.dataclass", "flax.struct.dataclass", "flax.struct.PyTreeNode",
        "flax.training.train_state.TrainState",
    }
)  # fmt: skip
_SPECIAL = frozenset({"__init__", "__new__", "__post_init__"})


class Kind(StrEnum):
    """How a state is copied with another value for a field."""

    DICT = "dict"
    NAMED_TUPLE = "._replace"
    WITH_REPLACE = ".replace"
    DATACLASS = "dataclasses.replace"


@dataclass(frozen=True)
class StateForm:
    """What a state is: a dict, or an object of a class that has certain fields."""

    kind: Kind
    owner: Known | None = None  # its class, if it has no other fields than those with arrays
    order: tuple[str, ...] = ()  # its fields, as the class has them

    @property
    def imports(self) -> frozenset[str]:
        """What `replaced` needs."""
        return frozenset({"import dataclasses"} if self.kind is Kind.DATACLASS else ())

    def read(self, state: str, name: str, style: Style) -> str:
        """A field of a state."""
        is_dict = self.kind is Kind.DICT
        return f"{state}[{style.string(name)}]" if is_dict else f"{state}.{name}"

    def replaced(self, state: str, values: Mapping[str, Argument], style: Style) -> CallText:
        """A state with other values for some fields."""
        if self.kind is Kind.DICT:
            items = [named(f"{style.string(name)}: ", v) for name, v in values.items()]
            return CallText("", (f"**{state}", *items), brackets="{}")
        given = [named(f"{name}=", value) for name, value in values.items()]
        if self.kind is Kind.DATACLASS:
            return CallText("dataclasses.replace", (state, *given))
        return CallText(f"{state}{self.kind.value}", tuple(given))

    def literal(self, values: Mapping[str, str], style: Style) -> CallText | None:
        """A state that has these values; None if that cannot be written without a state."""
        if self.kind is Kind.DICT:
            items = (f"{style.string(name)}: {value}" for name, value in values.items())
            return CallText("", tuple(items), brackets="{}")
        if self.owner is None:
            return None
        given = tuple(f"{name}={values[name]}" for name in self.order)
        return CallText(str(getattr(self.owner.node, "name", "")), given)


def named(opening: str, value: Argument) -> Argument:
    """The value of a keyword or key."""
    if isinstance(value, CallText):
        return CallText(opening + value.function, value.arguments, value.after, value.brackets)
    assert isinstance(value, str)
    return opening + value


def form_of(
    files: Sequence[File], cell: Cell, names: Collection[str], apart: Collection[str], is_dict: bool
) -> StateForm | None:
    """The form of a state with these fields, some of which stay apart; None if it is not known."""
    if not all(name.isidentifier() for name in names):
        return None
    if is_dict:
        return StateForm(Kind.DICT) if _is_dict(cell) else None
    classes = list(_classes(files, apart))
    kinds = {_kind(known) for known in classes}
    if len(kinds) != 1 or None in kinds:
        return None
    (kind,) = kinds
    assert kind is not None
    known = classes[0]
    order = tuple(_fields(known))
    is_complete = len(classes) == 1 and set(order) == set(names) and not _is_special(known)
    return StateForm(kind, known if is_complete else None, order)


def _is_dict(cell: Cell) -> bool:
    """Whether a state is made as a dict, and not as a FrozenDict, for example."""
    made = [point for point in cell.made if point.role is Role.REPLICATE]
    trees = [point.at.file.definition(point.inner) for point in made if point.inner is not None]
    return bool(trees) and all(isinstance(tree, ast.Dict) for tree in trees)


def _classes(files: Sequence[File], names: Collection[str]) -> Iterator[Known]:
    """The classes of a program that have all these fields."""
    for file in files:
        for node in file.index.nodes(ast.ClassDef):
            known = Known(node, file)
            if set(names) <= set(_fields(known)):
                yield known


def _fields(known: Known) -> Iterator[str]:
    """The annotated fields of a class, after those of its base classes in the program."""
    for base in _bases(known):
        yield from _fields(base)
    assert isinstance(known.node, ast.ClassDef)
    for statement in known.node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id


def _bases(known: Known) -> list[Known]:
    assert isinstance(known.node, ast.ClassDef)
    values = (known.file.only(base) for base in known.node.bases)
    return [
        value
        for value in values
        if isinstance(value, Known)
        and isinstance(value.node, ast.ClassDef)
        and value.node is not known.node
    ]


def _kind(known: Known) -> Kind | None:
    assert isinstance(known.node, ast.ClassDef)
    names = [_name(known.file, one) for one in (*known.node.bases, *known.node.decorator_list)]
    if any(name in _NAMED_TUPLES for name in names):
        return Kind.NAMED_TUPLE
    if any(name in _WITH_REPLACE for name in names):
        return Kind.WITH_REPLACE
    if "dataclasses.dataclass" in names:
        return Kind.DATACLASS
    inherited = {_kind(base) for base in _bases(known)}
    return inherited.pop() if len(inherited) == 1 else None


def _name(file: File, node: ast.expr) -> str | None:
    """The name of a base class or decorator, which may be called with options."""
    return file.name(node.func if isinstance(node, ast.Call) else node)


def _is_special(known: Known) -> bool:
    """Whether making an object does more than to keep its fields."""
    assert isinstance(known.node, ast.ClassDef)
    own = any(getattr(one, "name", "") in _SPECIAL for one in known.node.body)
    others = [base for base in known.node.bases if not _is_plain_base(known.file, base)]
    return own or bool(others)


def _is_plain_base(file: File, base: ast.expr) -> bool:
    return file.name(base) in _NAMED_TUPLES | {"flax.struct.PyTreeNode"}


def is_visible(file: File, owner: Known, node: ast.AST) -> bool:
    """Whether a class of a file can be named at a node of it: there it is defined already."""
    name = getattr(owner.node, "name", "")
    if owner.file is not file or owner.node not in file.index.root.body:
        return False
    is_later = file.index.function_around(node) is not None
    bound = file.index.module.names.get(name, [])
    is_before = is_later or owner.node.lineno < getattr(node, "lineno", 0)
    return bound == [owner.node] and is_before and not is_shadowed_below(file, node, name)


def is_shadowed_below(file: File, node: ast.AST, name: str) -> bool:
    """Whether a function around a node has this name for something else."""
    around = [file.index.opens.get(one) for one in file.index.ancestors(node)]
    return any(scope and scope.parent and name in scope.names for scope in around)
