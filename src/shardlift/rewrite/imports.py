"""Imports of a text: those that a rewrite needs put in, those that it left without use taken out.

Text in, text out; lines that are not imports stay as they are. In a file that works where JAX is
not installed, imports go where the file itself imports JAX: in a `try`, below
`if is_flax_available():` or a flag, or in the functions that need it.
"""

import ast
import re
import sys
from collections.abc import Callable, Collection, Iterable, Sequence, Set
from itertools import pairwise, takewhile

from shardlift.rewrite.call_format import Style
from shardlift.rewrite.import_order import (
    by_module,
    has_one_name_per_line,
    imports_first,
    merged,
    module_of,
    runs_of,
)
from shardlift.source.edits import apply_edits, split_lines
from shardlift.source.file import File
from shardlift.source.imports import drop_names
from shardlift.source.model import Edit
from shardlift.source.project import Project
from shardlift.source.scopes import DEFINITIONS, Import, Index, bound_name, first_line, index_of
from shardlift.source.statements import is_only_statement
from shardlift.source.text import Source

# Has the names of collections.abc, too, that helpers are annotated with.
_ALSO_ABC = "typing"
_SETS_ENVIRONMENT = re.compile(r"\benviron(\[|\.(update|setdefault|pop)\b)|\bputenv\(")
# Libraries that cannot be imported without JAX.
_NEED_JAX = frozenset(
    {"jax", "flax", "optax", "haiku", "chex", "equinox", "objax", "orbax", "distrax", "rlax"}
)
_SIMPLE = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.Expr)


def add_imports(
    text: str,
    statements: Iterable[str],
    own: frozenset[str] = frozenset(),
    needed_by: Collection[str] = (),
) -> str:
    """The text with import statements put where a person would.

    `own` has the names of the project's own packages and modules. The imports stand before the
    first use of a name that they bind, and of the names `needed_by`: helpers that use the imports.
    """
    top = TopLevel(text)

    def uses(of: Import) -> set[str]:
        return {*map(bound_name, of.names), *needed_by}

    wanted = [
        one for one in statements if not _is_there(top.before_use(uses(_parse(one))), _parse(one))
    ]
    if not has_one_name_per_line(runs_of(top.body)):
        apart: list[str] = []
        for one in sorted(wanted):
            more = import_more(text, one, max(Style.of(text).width, 88), needed_by)
            text, apart = (text, [*apart, one]) if more is None else (more, apart)
        top, wanted = TopLevel(text), merged(apart)
    for statement in sorted(wanted, key=lambda one: (one.startswith("from"), one)):
        parsed = _parse(statement)
        place = _place(top, parsed, statement, own, top.end_of_imports(uses(parsed)))
        top.insert(parsed, *place)
    return "".join(top.lines)


def import_more(
    text: str, statement: str, width: int, needed_by: Collection[str] = ()
) -> str | None:
    """The text with the name of a `from` import in the statement that has others of its module.

    None if no statement at the top has some, or its line would be too long.
    """
    if not re.fullmatch(r"from \S+ import \w+", statement):
        return None
    top, wanted = TopLevel(text), _parse(statement)
    name = wanted.names[0].name
    for node in top.before_use({name, *needed_by}):
        is_like = isinstance(node, ast.ImportFrom) and _source(node) == _source(wanted)
        if isinstance(node, ast.ImportFrom) and is_like and node.names[0].name != "*":
            if any(alias.name == name and not alias.asname for alias in node.names):
                return text
            line, column, new = _beside(top.lines, node.names, name)
            before, after = top.lines[line - 1][:column], top.lines[line - 1][column:]
            top.lines[line - 1] = before + new.replace("\n", top.newline) + after
            fits = all(len(part) <= width for part in top.lines[line - 1].splitlines())
            return "".join(top.lines) if fits else None
    return None


def _beside(lines: Sequence[str], names: Sequence[ast.alias], name: str) -> tuple[int, int, str]:
    """Where a name goes among imported ones: the line, the column, and what is put there."""
    keys = [(not one[0].isupper(), one) for one in (name, *(alias.name for alias in names))]
    is_sorted = keys[1:] == sorted(keys[1:])
    larger = [a for a, key in zip(names, keys[1:], strict=True) if is_sorted and keys[0] < key]
    near = larger[0] if larger else names[-1]
    margin = lines[near.lineno - 1][: near.col_offset]
    gap = " " if margin.strip() else f"\n{margin}"
    if larger:
        return near.lineno, near.col_offset, f"{name},{gap}"
    return near.end_lineno or 0, near.end_col_offset or 0, f",{gap}{name}"


def not_there(text: str, statements: Iterable[str], names: set[str]) -> set[str]:
    """The statements of some that a text has not made before it uses one of the names."""
    above = TopLevel(text).before_use(names)
    return {one for one in statements if not _is_there(above, _parse(one))}


OPTIONAL = "this file imports JAX in functions or under conditions: so has to be what it needs"


def is_optional(index: Index) -> bool:
    """Whether a file imports JAX, and only under a condition or in functions."""
    needing = (one for one in index.imports if _tops(one) & _NEED_JAX)
    around = [index.parents[one] for one in needing]
    for_types = [a for a in index.nodes(ast.If) if "TYPE_CHECKING" in ast.unparse(a.test)]
    around = [above for above in around if above not in for_types]
    return bool(around) and index.root not in around


def drop_unused(before: str, after: str) -> str:
    """The new text without the imports that only the old one used, and without those twice."""
    after = apply_edits(after, unused_imports(before, Source("new.py", after)))
    old, kept = {*split_lines(before)}, list[str]()
    for line in split_lines(after):
        is_new = line.startswith("from jax") and "(" not in line and line not in old
        if not is_new or line not in kept:
            kept.append(line)
    return "".join(kept)


def unused_imports(before: str, source: Source, kept: Set[str] = frozenset()) -> list[Edit]:
    """What takes out of a new text the imports that the old one used and it does not."""
    old, new = index_of(before), index_of(source.text)
    unused = _loads(old) - _loads(new) - _list_names(new) - kept
    unused |= _unused_modules(old, new)
    imported = {name for alias in new.nodes(ast.alias) for name in _names_of(alias)}
    edits: list[Edit] = []
    if unused.isdisjoint(imported):
        return edits
    file = File(source, Project.of(source), new)
    for statement in file.index.imports:
        aliases = [alias for alias in statement.names if unused & _names_of(alias)]
        future = getattr(statement, "module", "") == "__future__"
        # Alone in a block, it is a matter of that block: of a try, or of TYPE_CHECKING.
        if aliases and not future and not is_only_statement(file, statement):
            edits += drop_names(file, statement, aliases)
    return edits


def add_definitions(text: str, block: str, names: set[str]) -> str:
    """The text with a block of definitions above its own, two blank lines around it."""
    top = TopLevel(text)
    line = top.first_definition(names) or top.end_of_imports(names)
    above, below = top.lines[: line - 1], top.lines[line - 1 :]
    while below and not below[0].strip():
        below.pop(0)
    if above and not above[-1].endswith(("\n", "\r")):
        above[-1] += top.newline
    gap = top.newline * 2 if above else ""
    end = top.newline * 2 if below else ""
    return "".join([*above, gap, block.replace("\n", top.newline), end, *below])


class TopLevel:
    """The lines of a text and the statements of its top level, while imports are put in."""

    def __init__(self, text: str) -> None:
        """Parse the text."""
        self.lines, self.body = split_lines(text), ast.parse(text).body
        self.newline = "\r\n" if "\r\n" in text else "\n"
        self.order = _order([one for one in self.body if isinstance(one, Import)])
        self._names = {
            statement: {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
            for statement in self.body
        }

    def insert(self, statement: Import, line: int, lines: Sequence[str]) -> None:
        """Put lines, one of them a statement, in front of a line (counted from 1)."""
        at = line - 1
        if at and self.lines[at - 1 : at] and not self.lines[at - 1].endswith(("\n", "\r")):
            self.lines[at - 1] += self.newline
        self.lines[at:at] = [text + self.newline for text in lines]
        below = [other for other in self.body if other.lineno >= line]
        for other in below:
            other.lineno += len(lines)
            other.end_lineno = (other.end_lineno or 0) + len(lines)
        statement.lineno = statement.end_lineno = line + (not lines[0])
        self.body.insert(len(self.body) - len(below), statement)
        self._names[statement] = set()

    def before_use(self, names: set[str]) -> list[ast.stmt]:
        """The statements before the first one that uses one of the names."""
        return list(takewhile(lambda one: self._names[one].isdisjoint(names), self.body))

    def first_use(self, names: set[str]) -> int | None:
        """The first line of the first statement that uses one of the names."""
        before = self.before_use(names)
        if len(before) == len(self.body):
            return None
        return first_line(self.body[len(before)])

    def end_of_imports(self, uses: set[str]) -> int:
        """The line after the imports at the top: before anything is defined, or a name is used."""
        last = self.after_docstring()
        for statement in self.before_use(uses):
            if isinstance(statement, DEFINITIONS):
                break
            if isinstance(statement, Import) or _is_guarded_import(statement):
                last = (statement.end_lineno or statement.lineno) + 1
        return min(last, self.first_use(uses) or last)  # `import jax; jax.pmap(…)`

    def first_definition(self, uses: set[str]) -> int | None:
        """The line below the constants above the first definition; none with other code there."""
        above = list(takewhile(lambda one: not isinstance(one, DEFINITIONS), self.body))
        is_used = len(above) > len(self.before_use(uses))
        simple = all(isinstance(one, _SIMPLE) or _is_guarded_import(one) for one in above)
        if is_used or not simple or not above or len(above) == len(self.body):
            return None
        return (above[-1].end_lineno or 0) + 1

    def after_docstring(self) -> int:
        """The line after the docstring and the imports from `__future__`."""
        line = 1
        for statement in self.body:
            is_doc = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
            if not is_doc and not future:
                return min(line, statement.lineno)  # `"""Doc."""; import jax`
            line = (statement.end_lineno or 0) + 1
        return line

    def after_set_up(self) -> int:
        """The line after the statements that set the environment before JAX is imported."""
        line = 1
        for statement in self.body:
            if isinstance(statement, Import) and "jax" in _tops(statement):
                break
            if isinstance(statement, (*DEFINITIONS, ast.Import, ast.ImportFrom)):
                continue
            if _SETS_ENVIRONMENT.search(ast.unparse(statement)):
                line = (statement.end_lineno or statement.lineno) + 1
        return line


def _is_guarded_import(statement: ast.stmt) -> bool:
    return isinstance(statement, (ast.Try, ast.If)) and any(
        isinstance(inner, Import) for inner in statement.body
    )


def bound_names(statement: str) -> set[str]:
    """The names that an import statement binds."""
    return set(map(bound_name, _parse(statement).names))


def _parse(statement: str) -> Import:
    (parsed,) = ast.parse(statement).body
    assert isinstance(parsed, Import)
    return parsed


def _unused_modules(before: Index, after: Index) -> set[str]:
    """The modules of `import a.b` that only the old text uses, if `a` is imported otherwise."""
    aliases = [a for one in after.root.body if isinstance(one, ast.Import) for a in one.names]
    dotted = {a.name for a in aliases if a.asname is None and "." in a.name}
    if not dotted:
        return set()
    gone = dotted & _attributes(before) - _attributes(after)
    kept = {bound_name(alias) for alias in aliases if alias.name not in gone}
    return {module for module in gone if module.partition(".")[0] in kept}


def _attributes(index: Index) -> set[str]:
    return {ast.unparse(node) for node in index.nodes(ast.Attribute)}


def _names_of(alias: ast.alias) -> set[str]:
    """What an import binds, and the module of `import a.b`."""
    return {bound_name(alias), *([alias.name] if alias.asname is None else [])}


def _meanings(node: Import) -> set[tuple[str, str]]:
    """What names with a meaning of their own a statement binds: `jnp` is `jax.numpy`."""
    if isinstance(node, ast.ImportFrom):
        names = {(f"{node.module}.{a.name}", a.asname or a.name) for a in node.names}
        return names if not node.level else set()
    return {(alias.name, alias.asname) for alias in node.names if alias.asname}


def _is_there(body: Iterable[ast.stmt], wanted: Import) -> bool:
    """Whether one of some statements imports the same names."""
    names, meanings = {(alias.name, alias.asname) for alias in wanted.names}, _meanings(wanted)
    for node in body:
        if isinstance(node, Import) and meanings and meanings <= _meanings(node):
            return True
        if isinstance(node, Import) and type(node) is type(wanted):
            module = getattr(wanted, "module", "")
            same = _source(node) == _source(wanted)
            same |= (getattr(node, "module", ""), module) == (_ALSO_ABC, "collections.abc")
            if same and names <= {(alias.name, alias.asname) for alias in node.names}:
                return True
    return False


def _source(node: Import) -> tuple[int, str | None]:
    return (node.level, node.module) if isinstance(node, ast.ImportFrom) else (0, None)


def _place(
    top: TopLevel, parsed: Import, statement: str, own: frozenset[str], limit: int
) -> tuple[int, tuple[str, ...]]:
    """The line before which a statement is inserted, up to `limit`, and the lines to insert."""
    section = _section(parsed, own)
    # Only the run at the top counts; an import further down has its reasons. One of JAX stays
    # below what sets the environment for it.
    start = top.after_set_up() if section else 1
    present = [
        node
        for node in top.body
        if isinstance(node, Import)
        and getattr(node, "module", "") != "__future__"
        and start <= node.lineno < limit
    ]
    same = [node for node in present if _section(node, own) == section]
    # Beside the other imports of the same library, wherever they are.
    same = [node for node in same if _tops(node) & _tops(parsed)] or same
    if same:
        order = top.order
        above = [node for node in same if order(node) <= order(parsed)]
        if not above:
            return _first_line(top.lines, same[0]), (statement,)
        return (above[-1].end_lineno or 0) + 1, (statement,)
    before = [node for node in present if _section(node, own) < section]
    if before:
        return (before[-1].end_lineno or 0) + 1, ("", statement)
    if present:
        return _first_line(top.lines, present[0]), (statement, "")
    line = max(limit, top.after_docstring(), start)
    return line, ("", statement, "") if line > 1 else (statement, "")


def _order(present: list[Import]) -> Callable[[Import], tuple[object, object]]:
    """By module where a `from` stands before an `import`; else all `import` first, as isort."""
    pairs = pairwise(present)
    mixed = any(
        isinstance(a, ast.ImportFrom) and isinstance(b, ast.Import) and b.lineno == a.lineno + 1
        for a, b in pairs
    )
    return by_module if mixed else imports_first


def _first_line(lines: list[str], node: ast.stmt) -> int:
    """The line of a statement, or of the comment that stands right above it."""
    line = node.lineno
    while line > 1 and lines[line - 2].startswith("#") and not lines[line - 2].startswith("#!"):
        line -= 1
    # A comment at the very top, or of several lines, belongs to the file.
    return node.lineno if line <= 2 or line < node.lineno - 1 else line


def _section(node: Import, own: frozenset[str]) -> int:
    """0: the standard library, 1: others, 2: the project's own, 3: relative imports."""
    if getattr(node, "level", 0):
        return 3
    top = module_of(node).partition(".")[0]
    if top in own:
        return 2
    return 0 if top in sys.stdlib_module_names else 1


def _loads(index: Index) -> set[str]:
    return {node.id for node in index.nodes(ast.Name) if isinstance(node.ctx, ast.Load)}


def _list_names(index: Index) -> set[str]:
    """Names that strings of `__all__` mention."""
    found: set[str] = set()
    for statement in index.nodes(ast.Assign):
        if any(isinstance(t, ast.Name) and t.id == "__all__" for t in statement.targets):
            constants = (c for c in ast.walk(statement.value) if isinstance(c, ast.Constant))
            found |= {constant.value for constant in constants}  # type: ignore[misc]
    return found


def _tops(statement: Import) -> set[str]:
    if isinstance(statement, ast.Import):
        return {alias.name.partition(".")[0] for alias in statement.names}
    return set() if statement.level else {(statement.module or "").partition(".")[0]}
