"""The functions that a migration writes into a package, once: which there are, and their text.

A helper is a definition at the top level of a file of `helper_texts`; a new file there is all it
takes to add some. What a helper needs is read off the names that it says. Of `spmd_map` and
`per_row` there are two texts, in folders of their names: for the first axis of all arguments, and
with `in_axes`. The lines of donation are left out where no site donates.
"""

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

from shardlift.rewrite.call_format import Style
from shardlift.rewrite.goal import DEFAULT_AXIS
from shardlift.rewrite.helper_style import styled
from shardlift.rewrite.import_order import merged
from shardlift.source.model import HelperRequest
from shardlift.source.scopes import Index, bound_name, first_line, grouped, index_of

# Standard library first, as isort has it.
_STANDARD = ("collections", "dataclasses", "functools", "itertools", "math", "typing")
# The short names of modules that helpers use, and what to say where a file means another by them.
_FULL = {"np": ("numpy", "import numpy"), "jnp": ("jax.numpy", "import jax")}
# What helpers use of functools, by these names where a file imports one of them.
_OF_FUNCTOOLS = ("cache", "partial", "wraps")
# The helpers that have several texts, and the needs that only the longer ones serve.
_MAPPING = "spmd_map"
_ROW = "per_row"
AXES = "axes"
DONATING = "donating"
# Helpers that are in a module of their own, if one file needs others besides.
LONG_HELPERS = frozenset({_MAPPING})
# Each file has a copy of these, or that of a file that it imports: a module is not worth it.
SHORT_HELPERS = frozenset({"safe_map", "safe_zip"})
# The axis name in the texts that place arrays, and how it shows in what was written before.
_PLACED_AXIS = "devices"
_AXIS_OF_MESH = re.compile(r"""\(["'](\w+)["'],\)""")
_FOLDER = resources.files(__package__) / "helper_texts"
_OPTIMIZERS = frozenset({"Adam", "Optimizer", "OptimizerState"})
_DOC_OF_OPTIMIZERS = '"""The Adam of flax.optim, which flax 0.6 removed."""'
_DOC = '"""Helpers for arrays with one row per device."""'  # of the module of helpers


@dataclass(frozen=True)
class Helper:
    """One definition: its text, annotated, and the names of other helpers that it needs."""

    name: str
    source: str
    needs: frozenset[str]


def catalogue() -> Mapping[str, Helper]:
    """Every helper by its name, with all that it can do."""
    everything = frozenset({AXES, DONATING})
    return {**{name: _variant(name, everything) for name in (_MAPPING, _ROW)}, **_catalogue()}


def required(
    requests: Iterable[HelperRequest], spelling: Mapping[str, str] | None = None
) -> tuple[Helper, ...]:
    """The helpers that serve all requests and each other, in the order in which they are written.

    `spelling` has the file's own names of modules, where they are others.
    """
    asked = set(requests)
    texts = _texts_for(asked)
    while missing := {HelperRequest(n) for text in texts.values() for n in text.needs} - asked:
        asked |= missing
        texts = _texts_for(asked)
    names = (_MAPPING, *_catalogue(), _ROW)
    return tuple(_spell(texts[name], spelling or {}) for name in names if name in texts)


def _texts_for(requests: Iterable[HelperRequest]) -> dict[str, Helper]:
    """The one text of each helper that serves everyone who asks for it."""
    by_name = grouped(requests, lambda request: request.name)
    sites = [one for name in (_MAPPING, _ROW, "per_row_of") for one in by_name.get(name, ())]
    texts: dict[str, Helper] = {}
    for name, requested in by_name.items():
        needs = frozenset(word for one in requested for word in one.needs)
        helper = _catalogue()[name] if name in _catalogue() else _variant(name, needs)
        # One name for the axis: arrays that are placed have the type of those that are computed.
        texts[name] = _with_axis(helper, _usual_axis(sites)) if sites else helper
    return texts


def _usual_axis(requests: Iterable[HelperRequest]) -> str:
    """The name of the axis that the sites use."""
    axes = sorted({request.axis for request in requests if request.axis})
    return "batch" if "batch" in axes else (axes or [DEFAULT_AXIS])[0]


def _with_axis(helper: Helper, axis: str) -> Helper:
    return replace(helper, source=helper.source.replace(f'"{_PLACED_AXIS}"', f'"{axis}"'))


@cache
def _variant(name: str, needs: frozenset[str]) -> Helper:
    kind = AXES if AXES in needs else "rows"
    text = (_FOLDER / name / f"{kind}.py").read_text("utf-8")
    source = text[text.index(f"def {name}(") :].rstrip("\n")
    if DONATING not in needs:
        source = re.sub(r"\n +donate_.*|\n +\*,(?=\n +donate_)", "", source)
    return Helper(name, source, frozenset())


def extended(
    text: str, requests: Iterable[HelperRequest], style: Style
) -> tuple[str, tuple[Helper, ...], set[str]]:
    """A text whose helpers serve these requests, what is to be added to it, and the imports.

    A helper that is there and is no longer enough gives way to a larger text; one that was
    changed by hand stays.
    """
    spelling = _spelling_for(text)
    there = _there(text, spelling)
    chosen = required({*requests, *there}, spelling)
    before = text
    for node, helper in there.values():
        new = next(candidate for candidate in chosen if candidate.name == helper.name)
        if new.source != helper.source:
            text = text.replace(_segment(before, node), styled(new.source, style))
    defined = index_of(text).module.names
    missing = tuple(helper for helper in chosen if helper.name not in defined)
    added = missing if text == before else chosen
    return text, missing, set(imports_of(added, style, frozenset(spelling.values())))


def _there(text: str, spelling: Mapping[str, str]) -> dict[HelperRequest, tuple[ast.stmt, Helper]]:
    """The helpers that a text has, by the request that gives each."""
    helpers: dict[HelperRequest, tuple[ast.stmt, Helper]] = {}
    tree = index_of(text).root
    axes = sorted(set(_AXIS_OF_MESH.findall(text)))
    for node in tree.body:
        candidates = [pair for name in _defines(node) for pair in _candidates(name, text)]
        meaning = _meaning_of(_segment(text, node)) if candidates else ""
        for request, helper in candidates:
            spelled = _spell(helper, spelling)
            for one in (spelled, *(_with_axis(spelled, axis) for axis in axes)):
                if _meaning_of(one.source) == meaning:
                    helpers[request] = (node, one)
    return helpers


def written_names(text: str) -> set[str]:
    """The helpers that a migration wrote into a text, as far as they are unchanged."""
    return {request.name for request in _there(text, _spelling_for(text))}


def is_written(node: ast.stmt, text: str) -> bool:
    """Whether a definition of a text is one that a migration wrote."""
    written = _there(text, _spelling_for(text)).values()
    return any(node.lineno == statement.lineno for statement, _ in written)


def _candidates(name: str, text: str) -> Iterable[tuple[HelperRequest, Helper]]:
    """The requests for a helper, and the texts that they give."""
    if name in (_MAPPING, _ROW):
        axis = next(iter(_AXIS_OF_MESH.findall(text)), None)
        for words in ((), (DONATING,), (AXES,), (AXES, DONATING)):
            needs = frozenset(words)
            yield HelperRequest(name, needs, axis), _variant(name, needs)
    if name in _catalogue():
        yield HelperRequest(name), _catalogue()[name]


def _meaning_of(source: str) -> str:
    """What a definition says, whatever its layout and whether it is annotated."""
    return ast.unparse(ast.parse(styled(ast.unparse(ast.parse(source)), Style.plain())))


def _spelling_for(text: str) -> dict[str, str]:
    """What a text calls the modules of helpers: by names of its own, in full, or not at all."""
    index = index_of(text)
    names = {
        name: {imported_name(index, node) for node in bound}
        for name, bound in index.module.names.items()
    }
    spelling: dict[str, str] = {}
    for short, (full, _) in _FULL.items():
        own = [name for name, modules in names.items() if modules == {full} and name != "jax"]
        if short not in own and (own or short in names):
            spelling[short] = own[0] if own else full
    there = [names[name] == {f"functools.{name}"} for name in _OF_FUNCTOOLS if name in names]
    if there and all(there) and "functools" not in names:
        spelling["functools"] = ""
    return spelling


def _spell(helper: Helper, spelling: Mapping[str, str]) -> Helper:
    source = helper.source
    for short, full in spelling.items():
        source = re.sub(rf"\b{short}\.", f"{full}." if full else "", source)
    return replace(helper, source=source)


def imported_name(index: Index, node: ast.AST) -> str | None:
    """The module that a name is imported as; None if it is something else."""
    statement = index.parents.get(node)
    if not isinstance(node, ast.alias):
        return None
    parent = f"{statement.module}." if isinstance(statement, ast.ImportFrom) else ""
    return f"{parent}{node.name}"


def imports_of(
    helpers: Iterable[Helper], style: Style, own: frozenset[str] = frozenset()
) -> list[str]:
    """The import statements that some helpers need, sorted as isort would; `own` names have one."""
    sources = [styled(helper.source, style) for helper in helpers]
    said = {n.id for s in sources for n in ast.walk(ast.parse(s)) if isinstance(n, ast.Name)}
    table = {**_imports(), **{full.partition(".")[0]: line for full, line in _FULL.values()}}
    table |= {name: f"from functools import {name}" for name in _OF_FUNCTOOLS}
    return sorted({table[name] for name in said & table.keys() - own}, key=import_key)


def emit(requests: Iterable[HelperRequest], style: Style | None = None) -> str:
    """The text of a module with these helpers in it.

    >>> print(emit([HelperRequest("replicate")]).splitlines()[0])
    \"\"\"Helpers for arrays with one row per device.\"\"\"
    """
    style = style or Style.plain()
    helpers = required(requests)
    imports = import_block(imports_of(helpers, style))
    doc = _DOC if {helper.name for helper in helpers} - _OPTIMIZERS else _DOC_OF_OPTIMIZERS
    return f"{doc}\n\n{imports}\n\n\n{definitions(helpers, style)}"


def definitions(helpers: Iterable[Helper], style: Style) -> str:
    """The text of some helpers, two blank lines between them."""
    sources = [helper.source for helper in helpers]
    if any("jax.tree.map(" in source for source in sources):  # no old JAX runs the others, either
        sources = [source.replace("jax.tree_util.tree_map(", "jax.tree.map(") for source in sources]
    return "\n\n\n".join(styled(source, style) for source in sources) + "\n"


def import_block(statements: Iterable[str]) -> str:
    """Import statements, a blank line between the standard library and the rest."""
    ordered = merged(sorted(statements, key=import_key))
    sections = [[line for line in ordered if import_key(line)[0] == n] for n in (0, 1)]
    return "\n\n".join("\n".join(section) for section in sections if section)


def import_key(statement: str) -> tuple[int, int, str]:
    """Where isort puts a statement: by section, `import` before `from`, by name."""
    words = statement.split()
    return int(words[1].partition(".")[0] not in _STANDARD), int(words[0] == "from"), statement


@cache
def _catalogue() -> Mapping[str, Helper]:
    texts = _texts(_FOLDER)
    known = {name for text in texts for node in ast.parse(text).body for name in _defines(node)}
    return {helper.name: helper for text in texts for helper in _helpers(text, known)}


@cache
def _imports() -> Mapping[str, str]:
    """The import statement of every name that the helpers use."""
    imports: dict[str, str] = {}
    for text in _texts(_FOLDER):
        for node in ast.parse(text).body:
            if isinstance(node, ast.ImportFrom) and not node.level:
                for alias in node.names:
                    one = ast.ImportFrom(node.module, [alias], 0)
                    imports[bound_name(alias)] = ast.unparse(one)
            elif isinstance(node, ast.Import):
                imports[bound_name(node.names[0])] = ast.unparse(node)
    return imports


def _texts(folder: Traversable) -> list[str]:
    return [
        entry.read_text("utf-8")
        for entry in sorted(folder.iterdir(), key=lambda entry: entry.name)
        if entry.name.endswith(".py") and entry.name != "__init__.py"
    ]


def _helpers(text: str, known: set[str]) -> Iterable[Helper]:
    for node in ast.parse(text).body:
        said = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
        for name in _defines(node):
            yield Helper(name, _segment(text, node), frozenset(known & said - {name}))


def _defines(node: ast.stmt) -> list[str]:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return []


def _segment(text: str, node: ast.stmt) -> str:
    """The text of a statement, its decorators with it."""
    return "\n".join(text.splitlines()[first_line(node) - 1 : node.end_lineno])
