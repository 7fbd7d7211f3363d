"""At the site: `jax.jit(jax.shard_map(per_row(f), mesh=mesh, …))`, as a person would write it.

This is for scripts and notebooks, and for projects with few sites, if every site of the file maps
the first axis of its arguments or leaves some whole, has one row per device, is mapped once, and
is only called.
A site that needs more gets `spmd_map`, and so do the others of its file.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath

from shardlift.rewrite.call_format import Argument, CallText, Style
from shardlift.rewrite.forms import CallForm
from shardlift.rewrite.names import first_free, is_shadowed, jax_name
from shardlift.rewrite.options import (
    NotLiteralError,
    Options,
    UnsupportedError,
    is_leading,
    literal,
)
from shardlift.rewrite.row_counts import has_row_per_device
from shardlift.rewrite.scripts import may_touch_devices, runs_at_import, runs_once
from shardlift.rewrite.site_features import is_mapped_again, trains
from shardlift.rewrite.spmd_map import DEFAULT_AXIS, axis_of, check_axis_name
from shardlift.source.file import File
from shardlift.source.mentions import Mention, Use
from shardlift.source.model import Edit
from shardlift.source.scopes import LOOPS
from shardlift.source.statements import newline

PER_ROW = "per_row"
PER_ROW_OF = "per_row_of"  # with arguments that are whole
FEW_SITES = 5
_FOLDERS = frozenset({"example", "examples", "scripts", "notebooks"})
_KEYWORDS = frozenset({"axis_name", "in_axes", "out_axes", "donate_argnums"})
_BLOCKS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True)
class ExplicitSite:
    """The two calls that take the place of a pmap, and the edit that makes their mesh."""

    form: CallForm
    mesh: tuple[Edit, ...]
    axis: str | None  # its name, if the source says it


@dataclass(frozen=True)
class _MeshKey:
    """What sites share that have one mesh: the function that makes it, and the axis."""

    function: ast.AST | None  # None: the module
    axis: str  # as the text has it


def explicit_sites(
    file: File, sites: Mapping[Mention, Options], style: Style
) -> dict[Mention, ExplicitSite]:
    """The text of every site of a file; nothing if one of them needs `spmd_map`."""
    if not sites or not (_is_small(file) or _is_script(file)):
        return {}
    if not all(_is_simple(file, *site) for site in sites.items()):
        return {}
    at = {mention: _statement(file, mention) for mention in sites}
    imported = [at[mention] for mention in sites if runs_at_import(file, mention.node)]
    if imported and not may_touch_devices(file, min(map(_first_line, imported))):
        return {}
    forms: dict[Mention, ExplicitSite] = {}
    names: dict[str, tuple[str, str]] = {}  # of the meshes and their specs, by their axes
    for key, mentions in _groups(file, sites, style):
        texts = _mesh_text(file, key), f"{jax_name(file)[0]}.P({key.axis})"
        if key.axis not in names:
            used = {name for pair in names.values() for name in pair}
            kinds = zip(("mesh", "spec"), texts, strict=True)
            mesh, short = (_name(file, key, kind, text, used) for kind, text in kinds)
            names[key.axis] = mesh, short
        mesh, short = names[key.axis]
        fits = [
            all(_fits(file, m, sites[m], _inner(sites[m], mesh, text), style) for m in mentions)
            for text in (texts[1], short)
        ]
        is_named = fits == [False, True]
        lines = [(mesh, texts[0]), (short, texts[1])][: 1 + is_named]
        spec = short if is_named else texts[1]
        edits = _insert(file, key, lines, [at[mention] for mention in mentions])
        if edits is None:
            return {}
        for mention in mentions:
            form = _form(file, sites[mention], mesh, spec)
            forms[mention] = ExplicitSite(form, edits, axis_of(sites[mention]))
    return forms


def _groups(
    file: File, sites: Mapping[Mention, Options], style: Style
) -> list[tuple[_MeshKey, list[Mention]]]:
    """The sites that share a mesh, training steps first."""
    shared = {
        _key(file, mention, options, style)
        for mention, options in sites.items()
        if runs_at_import(file, mention.node)
    }
    groups: dict[_MeshKey, list[Mention]] = {}
    for mention, options in sites.items():
        key = _key(file, mention, options, style)
        of_module = replace(key, function=None)
        groups.setdefault(of_module if of_module in shared else key, []).append(mention)

    def is_other(group: tuple[_MeshKey, list[Mention]]) -> bool:
        return not any(trains(sites[mention], mention.node) for mention in group[1])

    return sorted(groups.items(), key=is_other)


def _is_small(file: File) -> bool:
    """Whether a project has few sites."""
    count = 0
    for other in file.project.files_with("pmap"):
        count += len(other.mentions)
        if count > FEW_SITES:
            return False
    return True


def _is_script(file: File) -> bool:
    if file.source.cells is not None or _FOLDERS & set(PurePath(file.path).parts[:-1]):
        return True
    return may_touch_devices(file, len(file.lines))


def _is_simple(file: File, mention: Mention, options: Options) -> bool:
    """Whether a site needs nothing but the first axis of its arguments, and is only called."""
    if set(options.keywords) - _KEYWORDS or any(
        is_shadowed(file, mention.name, name) for name in (PER_ROW, PER_ROW_OF, jax_name(file)[0])
    ):
        return False
    name = options.keywords.get("axis_name")
    if name is not None and not isinstance(name, ast.Constant):
        return False
    try:
        check_axis_name(options)
        axes = [literal(options.keywords[key]) for key in ("out_axes",) if key in options.keywords]
        whole = _in_axes(options)
    except (NotLiteralError, UnsupportedError):
        return False
    if not all(map(is_leading, axes)) or (whole and options.operand is None):
        return False
    node = mention.node
    if is_mapped_again(file, node, options.operand) and not runs_once(file, node):
        return False
    calls = list(_calls(file, mention))
    return bool(calls) and all(
        call is not None and not call.keywords and has_row_per_device(other, call.args)
        for other, call in calls
    )


def _in_axes(options: Options) -> tuple[int | None, ...]:
    """The axes of arguments of which some are whole; nothing if all have rows."""
    node = options.keywords.get("in_axes")
    axes = literal(node) if node is not None else 0
    if is_leading(axes):
        return ()
    if (
        isinstance(axes, (tuple, list))
        and 0 in axes
        and all(a is None or is_leading(a) for a in axes)
    ):
        return tuple(None if axis is None else 0 for axis in axes)
    raise UnsupportedError("it maps over other axes than the first")


def _calls(file: File, mention: Mention) -> Iterator[tuple[File, ast.Call | None]]:
    """The calls of a mapped function; None for a use that is not a call."""
    parent = file.index.parents.get(mention.node)
    if isinstance(parent, ast.Call) and parent.func is mention.node:
        yield file, parent
        return
    if mention.use is Use.DECORATOR and isinstance(parent, ast.FunctionDef):
        target: ast.AST = ast.Name(parent.name)
        is_shared = parent in file.index.root.body
    elif isinstance(parent, ast.Assign) and len(parent.targets) == 1:
        target = parent.targets[0]
        is_shared = parent in file.index.root.body
    else:
        yield file, None
        return
    if isinstance(target, ast.Name):
        yield from _uses(file, file.index.names.get(target.id, ()))
        for path in file.project.graph.importers(file.path) if is_shared else ():
            other = file.project.file(path)
            yield from _uses(other, other.index.names.get(target.id, ()))
            yield from _uses(other, _of_modules(other, target.id))
    elif isinstance(target, ast.Attribute):
        for other in file.project.files_with(target.attr):
            yield from _uses(other, _attributes(other, target.attr))
    else:
        yield file, None


def _attributes(file: File, name: str) -> list[ast.Attribute]:
    if _attributes not in file.memo:
        by_name: dict[str, list[ast.Attribute]] = {}
        for node in file.index.nodes(ast.Attribute):
            by_name.setdefault(node.attr, []).append(node)
        file.memo[_attributes] = by_name
    found: list[ast.Attribute] = file.memo[_attributes].get(name, [])
    return found


def _of_modules(file: File, name: str) -> Iterator[ast.Attribute]:
    """Mentions of a function of another module: `training.step`."""
    for node in _attributes(file, name):
        bound = file.index.module.names.get(getattr(node.value, "id", ""), ())
        if any(isinstance(one, ast.alias) for one in bound) and file.name(node.value) is None:
            yield node


def _uses(
    file: File, nodes: Iterable[ast.Name | ast.Attribute]
) -> Iterator[tuple[File, ast.Call | None]]:
    for node in nodes:
        parent = file.index.parents.get(node)
        if isinstance(node.ctx, ast.Load):
            is_called = isinstance(parent, ast.Call) and parent.func is node
            yield file, parent if is_called and isinstance(parent, ast.Call) else None


def _key(file: File, mention: Mention, options: Options, style: Style) -> _MeshKey:
    at = file.index.parents[mention.node] if mention.use is Use.DECORATOR else mention.node
    axis = options.text("axis_name") or style.string(DEFAULT_AXIS)
    return _MeshKey(file.index.function_around(at), axis)


def _name(file: File, key: _MeshKey, kind: str, value: str, used: set[str]) -> str:
    """A name for a mesh or its spec that nothing in the file has, unless it is just that."""
    own = key.axis[1:-1] if key.axis[1:-1] != DEFAULT_AXIS else "device"
    candidates = (kind, f"{own}_{kind}", *(f"{kind}_{number}" for number in range(2, 99)))
    there = (n for n in candidates[:2] if n not in used and _is_there(file, key, n, value))
    return next(there, None) or first_free(file, candidates, used)


def _mesh_text(file: File, key: _MeshKey) -> str:
    jax = jax_name(file)[0]
    return f"{jax}.sharding.Mesh({jax}.devices(), ({key.axis},))"


def _inner(options: Options, mesh: str, spec: str) -> tuple[str, ...]:
    whole = f"{jax_name(options.file)[0]}.P()"
    listed = [whole if axis is None else spec for axis in _in_axes(options)]
    in_specs = f"({', '.join(listed)})" if listed else spec
    return (f"mesh={mesh}", f"in_specs={in_specs}", f"out_specs={spec}", "check_vma=False")


def _form(file: File, options: Options, mesh: str, spec: str) -> CallForm:
    jax, axes, inner = jax_name(file)[0], _in_axes(options), _inner(options, mesh, spec)
    donated = options.text("donate_argnums")
    is_donated = donated and donated not in ("()", "[]")
    outer: tuple[Argument, ...] = (f"donate_argnums={donated}",) if is_donated else ()
    if not axes:
        return CallForm(inner, outer, None, name=f"{jax}.shard_map", rows=PER_ROW)
    # Whole arguments may be on one device, as under pmap: jit copies them to all.
    whole = f"{jax}.NamedSharding({mesh}, {jax}.P())"
    placed = tuple(whole if axis is None else "None" for axis in axes)
    outer = (CallText("in_shardings=", placed), *outer)
    return CallForm(
        inner, outer, None, name=f"{jax}.shard_map", rows=PER_ROW_OF, in_axes=(str(axes),)
    )


def _fits(
    file: File, mention: Mention, options: Options, inner: tuple[str, ...], style: Style
) -> bool:
    """Whether the arguments of a shard_map fit on one line."""
    margin, listed = len(file.margin(mention.node.lineno)), ", ".join(inner)
    if options.operand is None:
        return margin + len(f"@{jax_name(file)[0]}.shard_map({listed})") <= style.width
    operand = file.text(options.operand)
    return margin + len(f"{2 * style.indent}{PER_ROW}({operand}), {listed}") <= style.width


# ---- where the mesh is made


def _statement(file: File, mention: Mention) -> ast.stmt:
    statement = file.index.statement(mention.node)
    assert statement is not None
    return statement


def _place(file: File, key: _MeshKey, statements: list[ast.stmt]) -> ast.stmt:
    """The statement above which a mesh is made for some statements of one function."""
    chains = [_chain(file, statement, key.function) for statement in statements]
    place = min((chain[0] for chain in chains), key=_first_line)
    for level in zip(*chains, strict=False):
        if len({id(_block(file, statement)) for statement in level}) > 1:
            break
        place = min(level, key=_first_line)
        if len(set(level)) > 1 or isinstance(place, (*_BLOCKS, *LOOPS)):
            break
    return place


def _chain(file: File, statement: ast.stmt, function: ast.AST | None) -> list[ast.stmt]:
    """The statements around a statement in a function, from the outside."""
    chain = [statement]
    for around in file.index.ancestors(statement):
        if around is function:
            break
        if isinstance(around, ast.stmt):
            chain.append(around)
    return chain[::-1]


def _block(file: File, statement: ast.stmt) -> object:
    """The list of statements that a statement is in."""
    parent = file.index.parents[statement]
    fields = (getattr(parent, name, None) for name in parent._fields)
    return next(field for field in fields if isinstance(field, list) and statement in field)


def _insert(
    file: File,
    key: _MeshKey,
    lines: list[tuple[str, str]],
    statements: list[ast.stmt],
) -> tuple[Edit, ...] | None:
    """The edit that assigns what is not there yet; None if there is no line for it."""
    missing = [pair for pair in lines if not _is_there(file, key, *pair)]
    inside = [s for s in statements if key.function in (None, *file.index.ancestors(s))]
    place = _place(file, key, inside)
    line = _first_line(place)
    margin, end = file.margin(line), newline(file)
    if len(margin.encode()) != place.col_offset:
        return None
    while line > 1 and file.lines[line - 2].startswith(f"{margin}#"):
        line -= 1  # a comment stays with its statement
    is_block = isinstance(place, _BLOCKS) and place in file.index.root.body
    text = "".join(f"{margin}{name} = {value}{end}" for name, value in missing)
    edit = Edit(file.stretch(line, 0, line, 0), f"{text}{end * 2 if is_block else ''}")
    return (edit,) if missing else ()


def _first_line(statement: ast.stmt) -> int:
    return min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", ()))])


def _is_there(file: File, key: _MeshKey, name: str, value: str) -> bool:
    """Whether the function or the module assigns this already."""
    scopes = [file.index.module]
    scopes += [file.index.opens[key.function]] if key.function is not None else []
    made = [file.index.parents.get(n) for scope in scopes for n in scope.names.get(name, ())]
    text = ast.unparse(ast.parse(value, mode="eval"))
    return any(isinstance(one, ast.Assign) and ast.unparse(one.value) == text for one in made)
