"""All files of a program together: who calls a function, who sees an attribute or a global."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable
from dataclasses import dataclass, field

from shardlift.capture import schema
from shardlift.capture.text_digest import digest
from shardlift.migrate.device_axis.cells import (
    EACH,
    Cell,
    Escape,
    Made,
    Place,
    Use,
    add_made,
    add_use,
    collapse,
    escape,
    find,
    part,
    unify,
)
from shardlift.migrate.device_axis.dynamic import Reach, find_reaches
from shardlift.migrate.device_axis.sites import Site, find_sites, is_file
from shardlift.source.file import File
from shardlift.source.outputs import is_scalar, output_of
from shardlift.source.scopes import FUNCTIONS, Function, Scope, all_arguments
from shardlift.source.values import External, Instance, Known, Value

# Classes that a class may stand on without another's code seeing its attributes.
_PLAIN_BASES = frozenset({"builtins.object", "abc.ABC", "typing.Generic", "typing.Protocol"})
# What may be around a function without changing what goes in and out.
_PLAIN_DECORATORS = frozenset({"builtins.staticmethod", "builtins.classmethod", "jax.jit"})


@dataclass
class Called:
    """A function, what it returns, and whether all its calls are known."""

    file: File
    node: Function
    result: Cell = field(default_factory=Cell)
    calls: int = 0


@dataclass
class PendingCall:
    """A call of a value that may turn out to be a pmapped function."""

    at: Place
    call: ast.Call
    function: Cell
    arguments: list[Cell]
    named: list[Cell]
    result: Cell
    plain: bool  # nothing is unpacked into it


@dataclass
class Indexed:
    """`x[k]`: an element of a tuple, or the row of an array on one device."""

    at: Place
    node: ast.Subscript
    base: Cell
    index: int
    result: Cell


class Program:
    """The cells of a program, and what is shared between its functions and files."""

    def __init__(self, files: Iterable[File], facts: schema.Capture | None = None) -> None:
        """Nothing is walked yet."""
        self.files = list(files)
        self.sites: dict[ast.AST, Site] = {}
        self._bindings: dict[ast.AST, Cell] = {}
        self._fields: dict[tuple[ast.ClassDef, str], Cell] = {}
        self._functions: dict[ast.AST, Called] = {}
        self._unresolved: dict[str, Place] = {}  # attributes of values that are not known
        self._leaked: dict[ast.ClassDef, Escape] = {}
        self._exposed: set[tuple[ast.AST, ast.AST]] = set()  # a binding, and where it is reached
        self.read: set[tuple[File, str]] = set()  # globals that something reads
        self.pending: list[PendingCall] = []
        self.indexed: list[Indexed] = []
        self.tracked: list[Cell] = []
        self.mapped: list[tuple[Site, Cell]] = []
        for file in self.files:
            for site in find_sites(file, facts):
                self.sites[site.node] = site
        self._drop_ambiguous_facts()
        self._drop_stale_facts(facts)

    def _drop_stale_facts(self, facts: schema.Capture | None) -> None:
        """What was proven of a program is not known of one that has changed since."""
        recorded = {} if facts is None else facts.sources
        exact = {os.path.abspath(path): one for path, one in recorded.items()}
        paths = {os.path.abspath(file.path): file for file in self.files}
        # A run in another folder names its files from there.
        rest = {path: one for path, one in recorded.items() if os.path.abspath(path) not in paths}
        for here, file in paths.items():
            known = {one for path, one in rest.items() if is_file(path, here)}
            known = {exact[here]} if here in exact else known
            if known and digest(file.source.text) not in known:
                for site in self.sites.values():
                    site.stale = site.stale or (file.path if site.facts is not None else "")
                    site.facts = None

    def _drop_ambiguous_facts(self) -> None:
        """A recorded site that two places answer to says nothing of either."""
        by_facts: dict[int, list[Site]] = {}
        for site in self.sites.values():
            if site.facts is not None:
                by_facts.setdefault(id(site.facts), []).append(site)
        for group in by_facts.values():
            if len(group) > 1:
                for site in group:
                    site.facts = None

    # ---- names

    def binding(self, node: ast.AST) -> Cell:
        """The cell of what a name is bound to at one place."""
        return self._bindings.setdefault(node, Cell())

    def every_binding(self, file: File, scope: Scope, name: str) -> Cell:
        """All that a name of a scope is ever bound to, as one."""
        if scope.node is file.index.root:
            self.read.add((file, name))
        cell = Cell()
        for node in scope.names.get(name, ()):
            cell = unify(cell, self.bound(file, node))
        return cell

    def bound(self, file: File, node: ast.AST) -> Cell:
        """What a binding gives to its name, imports followed."""
        if isinstance(node, ast.alias):
            return self._imported(file, node)
        return self.binding(node)

    def _imported(self, file: File, alias: ast.alias) -> Cell:
        if alias in self._bindings:
            return self._bindings[alias]
        cell = self._bindings[alias] = Cell()
        statement = file.index.parents[alias]
        if isinstance(statement, ast.ImportFrom) and alias.name != "*":
            base = file.resolver.imported_module(statement)
            module = self._module(file, base)
            if module is not None:
                unify(cell, self.every_binding(module, module.index.module, alias.name))
        return cell

    def _module(self, file: File, dotted: str) -> File | None:
        module = file.project.module(tuple(dotted.split(".")), file.path) if dotted else None
        return module if module in self.files else None

    def module_of(self, file: File, node: ast.expr) -> File | None:
        """The file of the program that an expression names as a module."""
        value = file.only(node)
        return self._module(file, value.path) if isinstance(value, External) else None

    # ---- attributes of objects

    def attribute(self, owner: ast.ClassDef, file: File, name: str) -> Cell:
        """What `self.name` stands for, of all objects of a class and of its relatives."""
        top = self._top(owner, file)
        return self._fields.setdefault((top, name), Cell())

    def _top(self, owner: ast.ClassDef, file: File) -> ast.ClassDef:
        seen = {owner}
        while True:
            known = [v for base in owner.bases for v in file.values(base)]
            classes = [
                v for v in known if isinstance(v, Known) and isinstance(v.node, ast.ClassDef)
            ]
            paths = {v.path for v in known if isinstance(v, External)}
            others = [v for v in known if not isinstance(v, (Known, External))]
            if len(classes) > 1 or others or paths - _PLAIN_BASES or owner.keywords:
                why = f"is an attribute of the class {owner.name}, whose base class may see it"
                self._leaked.setdefault(owner, Escape(Place(file, owner), why))
            if not classes or classes[0].node in seen:
                return owner
            if owner in self._leaked:
                node = classes[0].node
                assert isinstance(node, ast.ClassDef)
                self._leaked.setdefault(node, self._leaked[owner])
            owner, file = classes[0].node, classes[0].file  # type: ignore[assignment]
            seen.add(owner)

    def leak(self, owner: ast.ClassDef, file: File, at: Place) -> None:
        """An object is handed on as a whole: whoever has it may see its attributes."""
        top = self._top(owner, file)
        why = f"is an attribute of the class {owner.name}, which is handed on"
        self._leaked.setdefault(top, Escape(at, why))

    # ---- functions

    def function(self, known: Known) -> Called:
        """A function of the program."""
        assert isinstance(known.node, FUNCTIONS)
        found = self._functions.get(known.node)
        if found is None:
            found = self._functions[known.node] = Called(known.file, known.node)
        return found

    def is_plain(self, known: Known) -> bool:
        """Whether what a call gives a function is what its parameters are."""
        if isinstance(known.node, ast.AsyncFunctionDef) or not isinstance(known.node, FUNCTIONS):
            return False
        decorators = getattr(known.node, "decorator_list", [])
        return all(known.file.name(one) in _PLAIN_DECORATORS for one in decorators)

    def hand_on(self, known: Known, at: Place) -> None:
        """A function is used as a value: others may call it with anything."""
        if not isinstance(known.node, FUNCTIONS):
            return
        called = self.function(known)
        self._open(called, Escape(at, "is returned by a function that is handed on"))

    def _open(self, called: Called, said: Escape) -> None:
        for argument in all_arguments(called.node.args):
            at = Place(called.file, argument)
            add_made(self.binding(argument), Made("elsewhere", at, why=said))
        escape(called.result, said)

    def unresolved(self, name: str, at: Place) -> None:
        """An attribute of something that is not known: it may be any method of that name."""
        self._unresolved.setdefault(name, at)

    # ---- calls of pmapped functions

    def settle(self) -> None:
        """Connect calls with the pmapped functions that reach them."""
        later = [indexed for indexed in self.indexed if not self._is_element(indexed)]
        # What is called and is no pmapped function is unknown, before any call is connected.
        known = [call for call in self.pending if self._sites_of(call)]
        for call in self.pending:
            if not self._sites_of(call):
                self._unknown_call(call)
        for call in known:
            self._connect(call)
        self.indexed = later
        for indexed in self.indexed:
            self._tell(indexed)
        for site in self.sites.values():
            for result in site.results[1:]:
                unify(site.results[0], result)
            for cells in site.given.values():
                for cell in cells[1:]:
                    unify(cells[0], cell)
            for result in site.results[:1]:
                _split(site, result)

    def _tell(self, indexed: Indexed) -> None:
        """Whether an index picks an element or a row, now that all outputs are known."""
        base = find(indexed.base)
        outputs = [made for made in base.made if made.kind == "output"]
        kinds = {m.site.structure(m.path) for m in outputs if m.site is not None}
        elements = EACH in base.parts or any(isinstance(key, int) for key in base.parts)
        if not base.collapsed and (
            elements or (kinds == {"tree"} and len(outputs) == len(base.made))
        ):
            unify(part(base, indexed.index), indexed.result)
            return
        add_made(indexed.result, Made("elsewhere", indexed.at))
        if indexed.index == 0 and self._is_row(indexed):
            add_use(base, Use("index", indexed.at, indexed.node.value))
        else:
            text = indexed.at.file.brief(indexed.node)
            escape(base, Escape(indexed.at, f"is indexed in `{text}`"))

    def _is_row(self, indexed: Indexed) -> bool:
        """Whether what is indexed can only be an array."""
        file = indexed.at.file
        if is_scalar(file, indexed.node):
            return True
        output = output_of(file, indexed.node.value)
        site = self.sites.get(output.mapped.node) if output is not None else None
        return output is not None and site is not None and site.structure(output.path) == "leaf"

    def _is_element(self, indexed: Indexed) -> bool:
        """An index of what is known to be a tuple or a list."""
        base = find(indexed.base)
        if EACH not in base.parts and not any(isinstance(key, int) for key in base.parts):
            return False
        unify(part(base, indexed.index), indexed.result)
        return True

    def _sites_of(self, call: PendingCall) -> set[Site]:
        made = find(call.function).made
        return {m.site for m in made if m.kind == "mapped" and m.site is not None}

    def _connect(self, call: PendingCall) -> None:
        sites = self._sites_of(call)
        if len(sites) > 1 or any(m.kind != "mapped" for m in find(call.function).made):
            for site in sites:
                site.obstacles.append(f"at {call.at}, it is one of several that may be called")
            self._unknown_call(call)
            return
        (site,) = sites
        site.calls.append((call.at.file, call.call))
        if not call.plain:
            site.obstacles.append(f"at {call.at}, it is called with unpacked arguments")
        if site.arguments not in (None, len(call.arguments)):
            site.obstacles.append(f"at {call.at}, it is called with another number of arguments")
        site.arguments = len(call.arguments)
        for position, argument in enumerate(call.arguments):
            if position in site.static:
                escape(argument, Escape(call.at, "is given as a static argument"))
            elif site.in_axis(position) is None:
                escape(argument, Escape(call.at, "is given to every device whole, by in_axes=None"))
            else:
                at = Place(call.at.file, call.call.args[position]) if call.plain else call.at
                add_use(argument, Use("argument", at, None, site, position))
                site.given.setdefault(position, []).append(argument)
                self.tracked.append(argument)
        for argument in call.named:
            escape(argument, Escape(call.at, "is given by keyword"))
        add_made(call.result, Made("output", call.at, None, site))
        site.results.append(call.result)
        self.tracked.append(call.result)

    def _unknown_call(self, call: PendingCall) -> None:
        what = call.at.file.brief(call.call.func)
        for argument in (*call.arguments, *call.named):
            escape(argument, Escape(call.at, f"is given to {what}"))
        add_made(call.result, Made("elsewhere", call.at))

    # ---- at the end

    def close(self) -> None:
        """Whatever others may see is seen: what is not called here is called from elsewhere."""
        for reach in find_reaches(self.files):
            self._expose(reach)
        overridden = self._overridden()
        for file in self.files:
            for node in file.index.functions():
                called = self.function(Known(node, file))
                name = getattr(node, "name", "")
                at = Place(file, node)
                if name in self._unresolved and not self._is_local(file, node):
                    self._open(
                        called, Escape(self._unresolved[name], f"may be what {name} returns")
                    )
                elif (leaked := self._leaked_owner(file, node)) is not None:
                    self._open(called, leaked)
                elif node in overridden:
                    self._open(called, Escape(at, f"is returned by {name}, which is overridden"))
                elif not called.calls:
                    what = f"is returned by {name}, which nothing here calls"
                    self._open(called, Escape(at, what if name else "is returned by a lambda"))
            self._close_globals(file)
        for (owner, _), cell in self._fields.items():
            said = self._leaked.get(owner)
            if said is not None and said.at is not None:
                escape(cell, said)
                add_made(cell, Made("elsewhere", said.at, why=said))

    def _leaked_owner(self, file: File, node: ast.AST) -> Escape | None:
        """Why others may call a method: they have an object of its class."""
        owner = file.index.parents.get(node)
        return self._leaked.get(self._top(owner, file)) if isinstance(owner, ast.ClassDef) else None

    def _expose(self, reach: Reach) -> None:
        """Names that are read in a way that is not followed: by `globals()`, `import *`."""
        said = Escape(reach.at, f"may be reached by `{reach.at.file.brief(reach.at.node)}`")
        names = reach.scope.names
        for name in names if reach.names is None else names.keys() & reach.names:
            for node in names[name]:
                if (node, reach.at.node) not in self._exposed:
                    self._exposed.add((node, reach.at.node))
                    escape(self.bound(reach.file, node), said)
                    for value in reach.file.resolver.bound(node):
                        self._expose_value(reach.file, value, said)

    def _expose_value(self, file: File, value: Value, said: Escape) -> None:
        if isinstance(value, Known) and isinstance(value.node, FUNCTIONS):
            self._open(self.function(value), said)
        elif isinstance(value, (Known, Instance)):
            assert isinstance(value.node, ast.ClassDef)
            self._leaked.setdefault(self._top(value.node, value.file), said)
        elif isinstance(value, External) and said.at is not None:
            module = self._module(file, value.path)
            if module is not None:
                self._expose(Reach(said.at, module, module.index.module))

    def _close_globals(self, file: File) -> None:
        for name, bound in file.index.module.names.items():
            for node in bound if (file, name) not in self.read else ():
                why = f"is `{name}` of its module, which nothing here reads"
                escape(self.bound(file, node), Escape(Place(file, node), why))

    def is_last_use(self, root: Cell, file: File, node: ast.AST) -> bool:
        """Whether a value is returned by the only function that has a name for it."""
        parent = file.index.parents.get(node)
        while isinstance(parent, (ast.Tuple, ast.Attribute, ast.Subscript)):
            parent = file.index.parents.get(parent)
        around = next((n for n in file.index.ancestors(node) if isinstance(n, FUNCTIONS)), None)
        if not isinstance(parent, ast.Return) or around is None:
            return False
        elsewhere = (*self._fields.values(), *(c.result for c in self._functions.values()))
        if any(find(cell) is root for cell in elsewhere):
            return False
        scope = file.index.opens[around]
        bound = [one for one, cell in self._bindings.items() if find(cell) is root]
        if any(file.index.scope_of.get(one) is not scope for one in bound):
            return False
        names = {getattr(one, "id", "") for one in bound}
        uses = (one for one in file.index.within(around, ast.Name) if one.id in names)
        return all(file.index.scope_of.get(one) is scope for one in uses)

    def note_handed_on(self) -> None:
        """A pmapped function that goes where it is not followed has to stay as it is."""
        for site, cell in self.mapped:
            for said in find(cell).escapes:
                site.obstacles.append(f"what it returns {said}")

    def _is_local(self, file: File, node: ast.AST) -> bool:
        """Whether a function is defined in another: no attribute leads to it."""
        return any(isinstance(around, FUNCTIONS) for around in file.index.ancestors(node))

    def _overridden(self) -> set[ast.AST]:
        """Methods that a class has from another and defines anew: a call may mean either."""
        by_name: dict[str, list[ast.AST]] = {}
        derived: set[str] = set()
        for file in self.files:
            for owner in file.index.nodes(ast.ClassDef):
                for node in owner.body:
                    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                        by_name.setdefault(node.name, []).append(node)
                        if owner.bases:
                            derived.add(node.name)
        return {n for name in derived for n in by_name[name] if len(by_name[name]) > 1}


def _split(site: Site, result: Cell) -> None:
    """Give each element of an output tuple a class; an output that is no tuple is one class."""
    result = find(result)
    if EACH in result.parts or (result.collapsed and not result.parts):
        collapse(result)
        return
    length = site.length() if site.structure(()) == "tree" else None
    if length is None:
        for key, inner in list(result.parts.items()):
            if isinstance(key, int):
                why = "is unpacked, and it is not known to be a tuple"
                escape(inner, Escape(Place(site.file, site.node), why))
        collapse(result)
        return
    if any(not isinstance(key, int) for key in result.parts):
        collapse(result)
        return
    for inner in list(result.parts.values()):
        collapse(inner)


def shared_names(file: File, scope: Scope) -> frozenset[str]:
    """Names of a scope that inner functions bind too: their order cannot be told."""
    found = set[str]()
    for other in file.index.opens.values():
        found |= {name for name, target in other.outer.items() if target is scope}
    return frozenset(found)
