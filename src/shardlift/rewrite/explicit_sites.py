"""At the site: `jax.jit(jax.shard_map(per_row(f), mesh=mesh, …))`, as a person would write it.

This is for scripts and notebooks, and for projects with few sites, if the text shows that there is
one row per device.
"""

import ast
import os
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import PurePath

from shardlift.rewrite.call_format import Argument, CallText, Style
from shardlift.rewrite.forms import CallForm, has_comments, is_wrappable
from shardlift.rewrite.goal import DEFAULT_AXIS, USUAL_AXIS
from shardlift.rewrite.mapped_calls import find_calls
from shardlift.rewrite.meshes import MeshKey, function_around, insert_lines, name_for, statement_of
from shardlift.rewrite.names import is_shadowed, jax_name, partial_name, sharding_name
from shardlift.rewrite.options import (
    Axes,
    Options,
    PlainOptions,
    UnsupportedError,
    each,
    plain_options,
)
from shardlift.rewrite.row_counts import may_have_other_rows, number_of_rows
from shardlift.rewrite.scripts import is_guard, is_mapped_again, may_touch_devices, means_the_same
from shardlift.source.file import File, remembered
from shardlift.source.mentions import Mention, Use
from shardlift.source.model import Edit
from shardlift.source.project import Project
from shardlift.source.scopes import first_line, has_star
from shardlift.source.values import Known

PER_ROW = "per_row"
PER_ROW_OF = "per_row_of"  # with other axes of what it returns, too
HELPER = "spmd_map"  # what many sites share
FEW_SITES = 5
_FOLDERS = frozenset({"example", "examples", "scripts", "notebooks"})
_PARTIAL = "over_devices"  # what several sites call alike
MOST_WHOLE = 4  # arguments: each takes a spec and a sharding
# The words of code that may ask which axes there are.
_ASKING = ("NameError", "axis_frame", "in_pmap", "kfac_jax")
_COLLECTIVE = re.compile(r"\b(pmean|psum|pmax|pmin|all_gather|axis_index|axis_size)\(")
_STATIC = "static_broadcasted_argnums"
STATIC = "it has static arguments: give jit its static_argnums, and map in it what is bound to them"
OWN_NAME = f"{STATIC}: for that, the function needs a name other than what is mapped"
MAPPED_AGAIN = (
    "it may be mapped again in each call of the code around it, and jax.pmap remembers what it "
    "compiled: map it once, and keep what that returns"
)


@dataclass(frozen=True)
class ExplicitSite:
    """The two calls that take the place of a pmap, and the edit that makes their mesh."""

    form: CallForm
    mesh: tuple[Edit, ...]
    axis: str | None  # its name, if the text says it


@dataclass(frozen=True)
class _Site:
    """A site that can be written out."""

    options: Options
    plain: PlainOptions
    axis: str = ""  # as the text has it, or will
    is_lazy: bool = False  # its mesh is made when it is traced: an import touches no device
    parameters: tuple[str, ...] = ()  # of what it maps, if some are static
    of: str = ""  # what a mapped method is taken from: its object, which is static, or its class
    copied: tuple[bool, ...] = ()  # the arguments that are whole, and may be on one device

    @property
    def literal_axis(self) -> str | None:
        """The name of its axis, if the text says it."""
        return ast.literal_eval(self.axis) if self.axis[:1] in ("'", '"') else self.plain.axis


def is_written_out(file: File) -> bool:
    """Whether sites of a file are written out: it is a script, or its project has few sites."""
    return is_small(file.project) or _is_script(file)


def explicit_sites(
    file: File, sites: Mapping[Mention, Options], style: Style
) -> dict[Mention, ExplicitSite | str]:
    """The text of every site of a file, or the reason why it is not written out."""
    forms: dict[Mention, ExplicitSite | str] = {}
    plain: dict[Mention, _Site] = {}
    for mention, options in sites.items():
        try:
            plain[mention] = _read_site(file, mention, options)
        except UnsupportedError as error:
            forms[mention] = str(error)
    plain = _with_lazy_meshes(file, _with_axes(file, plain, style))
    for mention, site in plain.items():
        has_whole = None in each(site.plain.in_axes)
        if site.is_lazy and (has_whole or not _means_the_same_later(file, site.options)):
            forms[mention] = (
                "a mesh would touch devices while the module is imported: map it in a function"
            )
    plain = {mention: site for mention, site in plain.items() if mention not in forms}
    names: dict[str, tuple[str, str]] = {}  # of the meshes and their specs, by the mesh's text
    for key, mentions in _groups(file, plain):
        forms |= _write_group(file, key, {m: plain[m] for m in mentions}, names, style)
    return forms


def _read_site(file: File, mention: Mention, options: Options) -> _Site:
    """A site that can be written out; `UnsupportedError` says why not."""
    for name in (PER_ROW, PER_ROW_OF, jax_name(file)[0]):
        if is_shadowed(file, mention.name, name):
            raise UnsupportedError(f"the name `{name}` means something else here")
    if has_comments(file, mention.node, options.operand):
        raise UnsupportedError("there are comments between its arguments: rewrite it by hand")
    plain = plain_options(options)
    whole = (k for k, axis in enumerate(each(plain.in_axes)) if axis is None)
    if len({*whole} - {*plain.static}) > MOST_WHOLE:
        raise UnsupportedError(f"more than {MOST_WHOLE} of its arguments are whole on each device")
    if is_mapped_again(file, mention.node, options.operand):
        raise UnsupportedError(MAPPED_AGAIN)
    calls = find_calls(file, mention)
    if any(call.keywords for _, call in calls):
        raise UnsupportedError(
            "it is called with keyword arguments, which shard_map does not take: pass them in order"
        )
    leading = [(other, _leading(plain, call)) for other, call in calls]
    number = number_of_rows(file, mention.node, leading) if not plain.devices else None
    if number is not None:
        gap = " " * ("." in number)  # as black lays it out
        plain = replace(plain, devices=f"{jax_name(file)[0]}.devices()[:{gap}{number}]")
    if calls and not plain.devices and all(may_have_other_rows(*one) for one in leading):
        raise UnsupportedError(
            "its arguments may have another number of rows than one per device: if they have one, "
            "write jax.jit(jax.shard_map(...)) over all devices"
        )
    parameters = _parameters(file, mention, options, plain, [call for _, call in calls])
    copied = _copied(plain, calls)
    if isinstance(plain.in_axes, tuple) and parameters:
        axes = tuple(a for k, a in enumerate(plain.in_axes) if k not in plain.static)
        plain = replace(plain, in_axes=axes if any(axis != 0 for axis in axes) else 0)
    of = _taken_from(file, mention, parameters[0]) if parameters else ""
    return _Site(options, plain, parameters=parameters, copied=copied, of=of)


def _leading(plain: PlainOptions, call: ast.Call) -> list[ast.expr]:
    """The arguments of a call that are mapped along their first axis."""
    axes = each(plain.in_axes, len(call.args))
    dynamic = [k for k in range(len(call.args)) if k not in plain.static]
    return [call.args[k] for k in dynamic if axes[k : k + 1] == (0,)]


def _copied(plain: PlainOptions, calls: list[tuple[File, ast.Call]]) -> tuple[bool, ...]:
    """Which arguments may be on one device while all need them: of a number, each has a copy."""

    def is_number(file: File, call: ast.Call, k: int) -> bool:
        given = None if has_star(call.args) or k >= len(call.args) else call.args[k]
        return given is not None and isinstance(file.definition(given), ast.Constant)

    axes = each(plain.in_axes)
    dynamic = [k for k in range(len(axes)) if k not in plain.static]
    numbers = {k for k in dynamic if calls and all(is_number(*call, k) for call in calls)}
    return tuple(axes[k] is None and k not in numbers for k in dynamic)


def _parameters(
    file: File, mention: Mention, options: Options, plain: PlainOptions, calls: list[ast.Call]
) -> tuple[str, ...]:
    """The parameters of a function whose first or last ones are static, as its calls give them."""
    if not plain.static:
        return ()
    names = _given(file, mention, options.operand, calls)
    statement = statement_of(file, mention)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if options.operand and file.text(options.operand) in map(file.text, targets):
        raise UnsupportedError(OWN_NAME)
    if 0 not in plain.static and _is_method(file, mention):
        names = ()
    last = {*plain.static} - {*_first(plain.static)}
    if not names or last != {*range(len(names) - len(last), len(names))}:
        raise UnsupportedError(STATIC)
    return names


def _taken_from(file: File, mention: Mention, parameter: str) -> str:
    """What a method is taken from: its class, where `self` may have that of another class, too."""
    method = file.index.parents[mention.node]
    if not isinstance(method, ast.FunctionDef) or not _is_method(file, mention):
        return ""
    name = method.name
    same = [
        node
        for other in file.project.files_where(lambda text: "pmap" in text and name in text)
        for node in other.index.nodes(ast.FunctionDef)
        if node.name == name and node.decorator_list
    ]
    owners = takewhile(lambda node: isinstance(node, ast.ClassDef), file.index.ancestors(method))
    names = [getattr(owner, "name", "") for owner in owners]
    return ".".join(reversed(names)) if len(same) > 1 else parameter


def _first(static: tuple[int, ...]) -> list[int]:
    """The static arguments that no other argument is in front of."""
    return [k for k in static if k >= 0 and {*range(k)} <= {*static}]


def _is_method(file: File, mention: Mention) -> bool:
    around = file.index.parents.get(file.index.parents[mention.node])
    return mention.use is Use.DECORATOR and isinstance(around, ast.ClassDef)


def _given(
    file: File, mention: Mention, operand: ast.expr | None, calls: list[ast.Call]
) -> tuple[str, ...]:
    """The parameters that every call gives by position; none if that cannot be said."""
    function = _mapped(file, mention, operand)
    if not isinstance(function, (ast.FunctionDef, ast.Lambda)) or function.args.posonlyargs:
        return ()
    names = tuple(argument.arg for argument in function.args.args)
    if isinstance(operand, ast.Attribute) and names[:1] == ("self",):
        if file.text(operand.value) != "self":
            return ()
        names = names[1:]
    counts = {len(call.args) for call in calls} | ({len(names)} if operand is None else set())
    unpacked = any(isinstance(a, ast.Starred) for call in calls for a in call.args)
    taken = {n.id for n in ast.walk(operand or ast.Tuple([])) if isinstance(n, ast.Name)}
    taken |= {"mesh", jax_name(file)[0]}
    if unpacked or len(counts) != 1 or max(counts) > len(names) or not taken.isdisjoint(names):
        return ()
    return names[: counts.pop()]


def _mapped(file: File, mention: Mention, operand: ast.expr | None) -> ast.AST | None:
    """The function that a site maps; None if it is not known, or cannot have another name."""
    if operand is None:
        return file.index.parents[mention.node] if is_wrappable(file, mention.node) else None
    value = file.only(operand) if isinstance(operand, (ast.Name, ast.Attribute)) else None
    return value.node if isinstance(value, Known) else operand


def _with_axes(file: File, sites: Mapping[Mention, _Site], style: Style) -> dict[Mention, _Site]:
    """The sites with the name of their axis. A site without one takes the name of the others."""
    names = {mention: site.options.text("axis_name") for mention, site in sites.items()}
    given = [name for name in names.values() if name]
    said = {
        name: site.options.keywords["axis_name"] for m, site in sites.items() if (name := names[m])
    }

    def usual(mention: Mention) -> str:
        known = [name for name in given if means_the_same(file, said[name], mention.node)]
        return max(known, key=known.count, default=style.string(USUAL_AXIS))

    # Code may find out that it runs under an axis: `pmean` where `NameError` is caught.
    tried = (ast.unparse(node) for node in file.index.nodes(ast.Try))
    asks = _asks_somewhere(file.project) or any(map(_COLLECTIVE.search, tried))
    return {
        m: replace(site, axis=names[m] or (style.string(DEFAULT_AXIS) if asks else usual(m)))
        for m, site in sites.items()
    }


@remembered
def _asks_somewhere(project: Project) -> bool:
    return any(True for word in _ASKING for _ in project.paths_with(word))


def _with_lazy_meshes(file: File, sites: Mapping[Mention, _Site]) -> dict[Mention, _Site]:
    """The sites, those with a mesh of their own where none may be made at the top of the file."""
    imported = [
        mention
        for mention in sites
        if function_around(file, mention) is None
        and not any(map(is_guard, file.index.ancestors(mention.node)))
    ]
    lines = [first_line(statement_of(file, mention)) for mention in imported]
    if not lines or may_touch_devices(file, min(lines)):
        return dict(sites)
    return {m: replace(site, is_lazy=m in imported) for m, site in sites.items()}


def _means_the_same_later(file: File, options: Options) -> bool:
    """Whether an expression is the same function when a lambda around it is called."""
    if not isinstance(options.operand, ast.Name):
        is_wrapped = options.operand is None and bool(options.keywords.get(_STATIC))
        return is_wrapped or isinstance(options.operand, ast.Lambda)
    scope, _ = file.index.binding_scope(options.operand)
    return scope is not None and len(scope.names[options.operand.id]) == 1


def _write_group(
    file: File,
    key: MeshKey,
    sites: Mapping[Mention, _Site],
    names: dict[str, tuple[str, str]],
    style: Style,
) -> dict[Mention, ExplicitSite | str]:
    """The text of the sites that share a mesh."""
    mesh_name, spec_name = (sharding_name(file, name) for name in ("Mesh", "PartitionSpec"))
    made, spec = CallText(mesh_name, (key.devices, f"({key.axis},)")), f"{spec_name}({key.axis})"
    forms: dict[Mention, ExplicitSite | str] = {}
    for mention, site in sites.items():
        if site.is_lazy:
            form = _form(site, _call(site, made.flat(), spec), "")
            forms[mention] = ExplicitSite(form, (), site.literal_axis)
    shared = {mention: site for mention, site in sites.items() if not site.is_lazy}
    if not shared:
        return forms
    used = {name for pair in names.values() for name in pair}
    if made.flat() not in names:
        kinds = ("mesh", made.flat()), ("spec", spec)
        mesh, short = (name_for(file, key, kind, text, used) for kind, text in kinds)
        names[made.flat()] = mesh, short
    mesh, short = names[made.flat()]
    lines = [(mesh, made)]
    replicated = CallText(sharding_name(file, "NamedSharding"), (mesh, f"{spec_name}()"))
    whole = replicated.flat()
    if any(sum(site.copied) > 1 for site in shared.values()):
        whole = name_for(file, key, "replicated", whole, used)
        lines.append((whole, replicated))
    calls = {m: _call(site, mesh, spec) for m, site in shared.items()}
    if not _fit(file, shared, calls, style):
        named = {m: _call(site, mesh, short) for m, site in shared.items()}
        if _fit(file, shared, named, style):
            lines.append((short, CallText(spec_name, (key.axis,))))
            calls = named
        else:
            partials = _partials(file, key, [*calls.values()], names)
            lines += partials.values()
            calls |= {
                m: CallText(partials[call][0], ()) for m, call in calls.items() if call in partials
            }
    statements = [statement_of(file, mention) for mention in shared]
    edits = insert_lines(file, key, lines, statements, style)
    for mention, site in shared.items():
        if edits is None:
            forms[mention] = "there is no line for its mesh: put its statement on one of its own"
        else:
            form = _form(site, calls[mention], whole)
            forms[mention] = ExplicitSite(form, edits, site.literal_axis)
    return forms


def _partials(
    file: File, key: MeshKey, calls: list[CallText], names: dict[str, tuple[str, str]]
) -> dict[CallText, tuple[str, CallText]]:
    """What several sites call alike, with a name for it: `functools.partial(jax.shard_map, …)`."""
    partials: dict[CallText, tuple[str, CallText]] = {}
    for call in dict.fromkeys(call for call in calls if calls.count(call) > 1):
        value = CallText(partial_name(file)[0], (call.function, *call.arguments))
        if value.flat() not in names:
            used = {name for pair in names.values() for name in pair}
            name = name_for(file, key, _PARTIAL, value.flat(), used)
            names[value.flat()] = name, name
        partials[call] = names[value.flat()][0], value
    return partials


def _groups(file: File, sites: Mapping[Mention, _Site]) -> list[tuple[MeshKey, list[Mention]]]:
    """The sites that share a mesh, training steps first."""
    shared = {
        _key(file, mention, site)
        for mention, site in sites.items()
        if function_around(file, mention) is None and not site.is_lazy
    }
    groups: dict[MeshKey, list[Mention]] = {}
    for mention, site in sites.items():
        key = _key(file, mention, site)
        of_module = replace(key, function=None)
        groups.setdefault(of_module if of_module in shared else key, []).append(mention)

    def is_other(group: tuple[MeshKey, list[Mention]]) -> bool:
        return not any(trains(sites[mention].options, mention.node) for mention in group[1])

    return sorted(groups.items(), key=is_other)


def trains(options: Options, node: ast.AST) -> bool:
    """Whether a site maps a training step, by what it donates or by its name."""
    mapped = options.operand or options.file.index.parents[node]
    name = getattr(mapped, "name", None) or options.file.text(mapped)
    return "donate_argnums" in options.keywords or "train" in name


@remembered
def is_small(project: Project) -> bool:
    """Whether few sites of a project may be rewritten, those that share the helper included."""
    is_few = _sites_of_packages(project).total() <= FEW_SITES
    return is_few and not any(True for _ in project.paths_with(HELPER))


@remembered
def _sites_of_packages(project: Project) -> Counter[str]:
    """How many sites there are in each package, and in each folder of scripts."""
    fresh, counts = project.fresh(), Counter[str]()
    for other in fresh.files_with("pmap"):
        if not other.many_processes:
            counts[project.package(other.path)] += len(other.mentions)
    fresh.close()
    return counts


def _is_script(file: File) -> bool:
    if file.source.cells is not None or _FOLDERS & set(PurePath(file.path).parts[:-1]):
        return True
    # The files of a package with many sites share the helper, those that run as scripts, too.
    package = file.project.package(file.path)
    is_package = os.path.join(package, "__init__.py") in file.project.paths
    if is_package and _sites_of_packages(file.project)[package] > FEW_SITES:
        return False
    return may_touch_devices(file, len(file.lines))


def _key(file: File, mention: Mention, site: _Site) -> MeshKey:
    devices = site.plain.devices or f"{jax_name(file)[0]}.devices()"
    return MeshKey(function_around(file, mention), devices, site.axis)


def _call(site: _Site, mesh: str, spec: str) -> CallText:
    """The call of `jax.shard_map`, without the function."""
    file = site.options.file
    whole = sharding_name(file, "PartitionSpec")
    specs = (_specs(axes, whole, spec) for axes in (site.plain.in_axes, site.plain.out_axes))
    in_specs, out_specs = specs
    given = f"mesh={mesh}", f"in_specs={in_specs}", f"out_specs={out_specs}", "check_vma=False"
    return CallText(f"{jax_name(file)[0]}.shard_map", given)


def _specs(axes: Axes, whole: str, spec: str) -> str:
    if isinstance(axes, tuple):
        parts = [_specs(axis, whole, spec) for axis in axes]
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
    if not axes:
        return f"{whole}()" if axes is None else spec
    name = spec.partition("(")[2] or f"*{spec})"
    return f"{whole}({'None, ' * axes}{name}"


def _form(site: _Site, call: CallText, whole: str) -> CallForm:
    plain = site.plain
    outer: list[Argument] = []
    if any(site.copied):
        # Whole arguments may be on one device, as under pmap: jit copies them to all.
        placed = tuple(whole if copied else "None" for copied in site.copied)
        outer.append(CallText("in_shardings=", placed))
    if site.parameters:
        outer.append(f"static_argnums={site.options.text(_STATIC)}")
    outer += site.options.donation
    dynamic = [p for k, p in enumerate(site.parameters) if k not in plain.static]
    bound = {k: p for k, p in enumerate(site.parameters) if k in plain.static}
    names = ("*args", "*args") if site.is_lazy else ("", "")
    if site.parameters:
        names = ", ".join(site.parameters), ", ".join(dynamic)
    axes = [f"in_axes={plain.in_axes}", f"out_axes={plain.out_axes}"]
    rows = PER_ROW_OF
    if plain.out_axes == 0 and (plain.in_axes == 0 or isinstance(plain.in_axes, tuple)):
        rows, axes = PER_ROW, axes[:1] if plain.in_axes else []
    if bound.get(0) == site.of:
        del bound[0]
    return CallForm(
        call.arguments,
        tuple(outer),
        None,
        name=call.function,
        rows=rows,
        in_axes=tuple(axes),
        of=site.of,
        bound=tuple(p if k in _first(plain.static) else f"{p}={p}" for k, p in bound.items()),
        parameters=names[0],
        arguments=names[1],
    )


def _fit(
    file: File, sites: Mapping[Mention, _Site], calls: Mapping[Mention, CallText], style: Style
) -> bool:
    """Whether the arguments of each shard_map fit on one line."""
    return all(_fits(file, m, site, calls[m], style) for m, site in sites.items())


def _fits(file: File, mention: Mention, site: _Site, call: CallText, style: Style) -> bool:
    margin, flat = len(file.margin(mention.node.lineno)), call.flat()
    operand = site.options.operand
    if operand is None and site.parameters:
        return False
    if operand is None:
        return margin + len(f"@{flat}") <= style.width
    listed = flat[len(call.function) + 1 : -1]
    written = f"{2 * style.indent}{PER_ROW}({file.text(operand)}), {listed}"
    return margin + len(written) <= style.width
