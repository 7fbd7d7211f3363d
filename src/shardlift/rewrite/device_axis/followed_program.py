"""All files of a program together: its names, functions and classes, each with its cell."""

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from shardlift.capture import schema
from shardlift.rewrite.device_axis.cells import Cell, CellRole, Escape, NodePlace, Point
from shardlift.rewrite.device_axis.global_sites import GlobalSite, find_program_sites
from shardlift.source.file import File
from shardlift.source.scopes import FUNCTIONS, Function, Scope, all_arguments
from shardlift.source.values import External, Instance, Known, Value

# What may be around a function without changing what goes in and out.
_PLAIN_DECORATORS = frozenset({"builtins.staticmethod", "builtins.classmethod", "jax.jit"})


@dataclass
class Called:
    """A function, what it returns, and how many calls of it were found."""

    file: File
    node: Function
    result: Cell = field(default_factory=Cell)
    calls: int = 0


@dataclass
class PendingCall:
    """A call of a value that may turn out to be a pmapped function."""

    at: NodePlace
    call: ast.Call
    function: Cell
    arguments: list[Cell]  # by position
    nodes: list[ast.expr]  # of the arguments: of several, if a tuple is unpacked
    named: list[Cell]
    result: Cell
    plain: bool  # it is known how many arguments there are


@dataclass
class Indexed:
    """`x[k]`: an element of a tuple, or the row of an array on one device."""

    at: NodePlace
    node: ast.Subscript
    base: Cell
    index: int
    result: Cell


class FollowedProgram:
    """The cells of a program, and what is shared between its functions and files."""

    def __init__(self, files: Iterable[File], captures: Sequence[schema.Capture] = ()) -> None:
        """Find the sites of the files; nothing is visited yet."""
        self.files = list(files)
        self.sites: dict[ast.AST, GlobalSite] = {
            site.node: site for site in find_program_sites(self.files, captures)
        }
        self.fields: dict[tuple[ast.ClassDef, str], Cell] = {}
        self.functions: dict[ast.AST, Called] = {}
        self.leaked: dict[ast.ClassDef, Escape] = {}  # classes whose attributes others may see
        self.unresolved_names: dict[str, NodePlace] = {}  # attributes of values that are not known
        self.read: set[tuple[File, str]] = set()  # globals that something reads
        self.pending: list[PendingCall] = []
        self.indexed: list[Indexed] = []
        self.tracked: list[Cell] = []  # the values whose layout is decided
        self.mapped: list[tuple[GlobalSite, Cell]] = []  # pmapped functions
        self._bindings: dict[object, Cell] = {}
        self._given: set[object] = set()  # bindings and attributes whose values were found
        self._read_at: dict[object, NodePlace] = {}  # those that something reads
        # The names that functions bind outside of themselves, at a time that is not known.
        self.declared: set[tuple[File, str]] = set()
        for file in self.files:
            listed = [node.names for node in file.index.nodes(ast.Global)]
            listed += [node.names for node in file.index.nodes(ast.Nonlocal)]
            self.declared |= {(file, name) for names in listed for name in names}

    # ---- names

    def binding(self, key: object) -> Cell:
        """The cell of the value that a name is bound to at one place, or of an attribute."""
        return self._bindings.setdefault(key, Cell())

    def give(self, key: object, cell: Cell) -> None:
        """Note a value that a name is bound to at one place, or an attribute."""
        self._given.add(key)
        self.binding(key).unify(cell)

    def lose_the_rest(self) -> None:
        """What is bound in any other way (`except`, `case`, an import, a field) is not known."""
        for key, at in self._read_at.items():
            if key not in self._given:
                self.binding(key).add_made(Point(CellRole.ELSEWHERE, at))

    def every_binding(self, file: File, scope: Scope, name: str) -> Cell:
        """The cell of all values that a name of a scope is ever bound to."""
        return self.any_of(file, scope, name, scope.names.get(name, ()))

    def any_of(self, file: File, scope: Scope, name: str, bound: Iterable[ast.AST]) -> Cell:
        """The cell of some of the values that a name is bound to, for a place that reads it."""
        if scope.node is file.index.root:
            self.read.add((file, name))
        cell = Cell()
        for node in bound:
            cell = cell.unify(self.bound(file, node))
        return cell

    def bound(self, file: File, node: ast.AST) -> Cell:
        """The cell of the value that a binding gives to its name; imports are followed."""
        is_new = node not in self._read_at
        self._read_at[node] = NodePlace(file, node)
        statement = file.index.parents.get(node)
        if is_new and isinstance(node, ast.alias) and isinstance(statement, ast.ImportFrom):
            module = self.module(file, file.resolver.imported_module(statement))
            if module is not None and node.name in module.index.module.names:
                self.give(node, self.every_binding(module, module.index.module, node.name))
        return self.binding(node)

    def module(self, file: File, dotted: str) -> File | None:
        """The file of the program that is a module, as an import in another file names it."""
        module = file.project.module(tuple(dotted.split(".")), file.path) if dotted else None
        return module if module in self.files else None

    def module_of(self, file: File, node: ast.expr) -> File | None:
        """The file of the program that an expression names as a module."""
        value = file.only(node)
        return self.module(file, value.path) if isinstance(value, External) else None

    # ---- attributes of objects

    def attribute(self, owner: ast.ClassDef, name: str, at: NodePlace) -> Cell:
        """The cell of `self.name`, for all objects of a class, for a place that has it."""
        self._read_at.setdefault((owner, name), at)
        return self.fields.setdefault((owner, name), self.binding((owner, name)))

    # ---- functions

    def function(self, known: Known) -> Called:
        """A function of the program."""
        assert isinstance(known.node, FUNCTIONS)
        return self.functions.setdefault(known.node, Called(known.file, known.node))

    def is_plain(self, known: Known) -> bool:
        """Whether the arguments of a call become the parameters of a function unchanged."""
        if isinstance(known.node, ast.AsyncFunctionDef) or not isinstance(known.node, FUNCTIONS):
            return False
        decorators = getattr(known.node, "decorator_list", [])
        return all(known.file.name(decorator) in _PLAIN_DECORATORS for decorator in decorators)

    def hand_on(self, value: Value, at: NodePlace, use: Escape | None = None) -> None:
        """A function, class or object is used as a value, or in another way.

        Others may call it with anything, or see its attributes.
        """
        if isinstance(value, Known) and isinstance(value.node, FUNCTIONS):
            why = "is returned by a function that is passed on as a value"
            self.open(self.function(value), use or Escape(at, why, outside=True))
        elif isinstance(value, (Known, Instance)):
            assert isinstance(value.node, ast.ClassDef)
            why = f"is an attribute of the class {value.node.name}, which is passed on"
            self.leaked.setdefault(value.node, use or Escape(at, why, outside=True))

    def open(self, called: Called, use: Escape) -> None:
        """Others may call a function: its parameters may be anything, and its result is theirs."""
        for argument in all_arguments(called.node.args):
            at = NodePlace(called.file, argument)
            self.binding(argument).add_made(Point(CellRole.ELSEWHERE, at, why=use))
        called.result.escape(use)
