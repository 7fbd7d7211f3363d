"""pmap itself: called, as a decorator, or handed on as a value.

In scripts and in projects with few sites the two calls are written where pmap was. Many sites
share a helper, `spmd_map`, and change by that name. pmaps directly inside one another become one
`jax.jit(shard_map_per_device(f, …), …)` over a mesh of several axes. Every other site keeps pmap.
"""

import ast
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from shardlift.rewrite import removed_names
from shardlift.rewrite.call_format import Style
from shardlift.rewrite.explicit_sites import (
    HELPER,
    MAPPED_AGAIN,
    STATIC,
    ExplicitSite,
    explicit_sites,
    is_written_out,
)
from shardlift.rewrite.forms import PER_DEVICE, between, decorators, edits_of, form_of, has_comments
from shardlift.rewrite.goal import Goal
from shardlift.rewrite.helpers import AXES, DONATING
from shardlift.rewrite.imports import OPTIONAL, is_optional
from shardlift.rewrite.left_alone import why_left_alone
from shardlift.rewrite.mapped_calls import LOWERED, is_lowered
from shardlift.rewrite.names import is_shadowed, jax_name, partial_name
from shardlift.rewrite.nested import levels_of, tangled
from shardlift.rewrite.options import (
    NotLiteralError,
    Options,
    PlainOptions,
    UnsupportedError,
    decorating,
    each,
    plain_options,
)
from shardlift.rewrite.scripts import is_mapped_again
from shardlift.source.file import File, remembered
from shardlift.source.mentions import OWN, MappedBy, Mention, Unfollowed, Use
from shardlift.source.model import Edit, HelperRequest, Kind, Match
from shardlift.source.project import Project, is_test
from shardlift.source.scopes import end, last_name, position
from shardlift.source.sites import Role
from shardlift.source.text import has_comment

_TAKEN = frozenset({"axis_name", "in_axes", "donate_argnums"})  # by spmd_map

# What the summary says more about, once.
ONE_FORM = "another site of this notebook keeps jax.pmap, and a notebook should show one form"
MANY_PROCESSES = "it keeps jax.pmap: several processes may run this program"
GETS_A_NAME = "jax.pmap gets another name here: look at what it maps, and map that by jax.shard_map"
PASSED_ON = GETS_A_NAME.replace("gets another name here", "is passed on as a value")
COMPARED = "it is compared with pmap, and what it is compared with may be rewritten: look at it"


def rewrite(file: File, goal: Goal) -> Iterator[Match]:
    """Every mention of pmap in a file, rewritten or refused."""
    leaving = leaving_sites(file) if goal is not Goal.FIX else frozenset()
    reason = why_all_stay(file.project) if leaving else None
    for match in rewrite_if_most(file, goal):
        stays = reason is not None and match.node in leaving
        yield Match(match.node, reason or "", kind=Kind.SITE) if stays else match


def rewrite_if_most(file: File, goal: Goal) -> Iterator[Match]:
    """The same, as if most sites of the project could leave pmap."""
    if goal is Goal.SHIM:
        return
    yield from _refused(file)
    yield from _plain(file) if goal is not Goal.FIX else ()
    yield from _others(file)


@remembered
def leaving_sites(file: File) -> frozenset[ast.AST]:
    """The sites that leave pmap only if most sites of the project can."""
    return frozenset(match.node for match in _plain(file) if match.edits)


@remembered
def _read(file: File) -> tuple[list[Match], dict[Mention, Options]]:
    """Nested pmaps and what is refused; and the sites of one pmap each."""
    inside = tangled(file)
    looked_into = _why_looked_into(file) if file.mentions else None
    matches: list[Match] = []
    plain: dict[Mention, Options] = {}
    done: set[ast.AST] = set()
    for mention in file.mentions:
        reason = _why_not(file, mention, inside) or looked_into
        if reason is None and mention.name not in done:
            try:
                levels, names = _levels(file, mention)
                done.update(names if len(levels) > 1 else ())
                if len(levels) > 1 and (reason := _why_stuck(file)) is None:
                    matches.append(_rewrite_nested(file, mention, levels, _style(file)))
                elif len(levels) == 1:
                    plain[mention] = levels[0]
            except (UnsupportedError, NotLiteralError) as error:
                reason = str(error)
        if reason is not None:
            matches.append(Match(mention.node, reason, kind=kind_of(mention)))
    return matches, plain


def _refused(file: File) -> list[Match]:
    """Nested pmaps and what is refused. It is kept with the tree, for `count` asks, too."""
    if _refused not in file.index.memo:
        file.index.memo[_refused] = _read(file)[0]
    refused: list[Match] = file.index.memo[_refused]
    return refused


def _plain(file: File) -> list[Match]:
    """Sites of one pmap each: written out, with the helper, or refused."""
    if _plain not in file.index.memo:
        matches = [*_rewrite_plain(file, _read(file)[1])]
        others = _refused(file)
        if file.source.cells is not None and not all(m.edits for m in (*others, *matches)):
            matches = [replace(m, message=m.message or ONE_FORM, edits=()) for m in matches]
        file.index.memo[_plain] = matches
    plain: list[Match] = file.index.memo[_plain]
    return plain


def _rewrite_plain(file: File, sites: Mapping[Mention, Options]) -> Iterator[Match]:
    stuck = _why_stuck(file) if sites else None
    forms, shares_helper = _explicit(file), bool(sites) and _shares_helper(file)
    for mention, options in sites.items():
        form = forms.get(mention)
        renamed = _rename(file, mention, options)
        if stuck is not None:
            yield Match(mention.node, stuck, kind=Kind.SITE)
        elif isinstance(form, ExplicitSite) and not (shares_helper and renamed.edits):
            yield _write_out(file, mention, options, form, _style(file))
        elif renamed.edits or not isinstance(form, str):
            yield renamed
        else:
            yield Match(mention.node, form, kind=Kind.SITE)


@remembered
def _explicit(file: File) -> dict[Mention, ExplicitSite | str]:
    """The sites of a file that can be written out; of the others, the reason."""
    sites = _read(file)[1] if is_written_out(file) else {}
    return explicit_sites(file, sites, _style(file)) if sites else {}


def _shares_helper(file: File) -> bool:
    """Whether a site has the helper because others of its file or program need it."""
    if file.source.cells is not None:
        return _needs_helper(file)
    graph, needy = file.project.graph, _need_helper(file.project)
    return any(path == file.path or graph.is_same_program(file.path, path) for path in needy)


@remembered
def _need_helper(project: Project) -> list[str]:
    named = project.files_with("pmap")
    return [other.path for other in named if other.source.cells is None and _needs_helper(other)]


def _needs_helper(file: File) -> bool:
    """Whether a site of a file can have the helper, and no text of its own."""
    sites = _read(file)[1]
    forms = _explicit(file)
    return any(
        not isinstance(forms.get(m), ExplicitSite) and _rename(file, m, sites[m]).edits
        for m in sites
    )


@remembered
def why_all_stay(project: Project) -> str | None:
    """Why no site of a project is rewritten: most of them cannot be."""
    counts = [*_counts(project)]
    changed, kept = (sum(numbers) for numbers in zip(*counts, strict=True))
    if changed > kept:
        return None
    some = any(changed > kept for changed, kept in counts)
    advice = ": to migrate some of them, give their paths alone" if some else ""
    return f"only {changed} of {changed + kept} sites could leave jax.pmap, so all keep it{advice}"


def _counts(project: Project) -> Iterator[tuple[int, int]]:
    counts: dict[str, tuple[int, int]] = project.memo.setdefault(count, {})
    for path in project.paths_with("pmap"):
        if path not in counts:  # else it was counted while it was resolved
            fresh = project.fresh()
            for file in fresh.files_with("pmap", among=(path,)):
                count(file)
            fresh.close()
        yield counts.get(path, (0, 0))


def count(file: File) -> tuple[int, int]:
    """How many sites of a file can leave pmap, and how many cannot."""
    counts: dict[str, tuple[int, int]] = file.project.memo.setdefault(count, {})
    if file.path not in counts:
        changed = {match.node for match in (*_refused(file), *_plain(file)) if match.edits}
        sites = [site for site in file.sites if site.role is Role.MAP]
        kept = {site.node for site in sites if site.transform.origin in OWN | _OTHER.keys()}
        kept |= {match.node for match in _refused(file) if match.message == PASSED_ON}
        kept |= {one.call for one in file.unfollowed if one.by is MappedBy.LIBRARY}
        kept -= changed
        rest = (m for m in file.mentions if m.node in kept)
        aside = {mention.node for mention in rest if why_left_alone(file, mention) is not None}
        counts[file.path] = len(changed), 0 if _tests_a_stand_in(file) else len(kept - aside)
    return counts[file.path]


def _why_stuck(file: File) -> str | None:
    """Why a file does not run on the target whatever becomes of its sites."""
    for match in removed_names.lost(file):
        name = match.name or file.brief(match.node)
        return f"this file needs {name}, which is removed and has to be replaced by hand first"
    for path, name, on_import in removed_names.needed(file):
        if on_import:
            return f"{path}, which it imports, needs {name}: that has to be replaced by hand first"
    return None


def _write_out(
    file: File, mention: Mention, options: Options, site: ExplicitSite, style: Style
) -> Match:
    """`jax.jit(jax.shard_map(per_row(f), mesh=mesh, …))`, and the mesh."""
    edits = (*site.mesh, *edits_of(file, mention.node, options.operand, site.form, style))
    needs = frozenset({AXES} if site.form.in_axes else ())
    helper = HelperRequest(site.form.rows, needs, site.axis)
    needs_partial = site.form.bound or not site.form.inner
    imports = jax_name(file)[1] | (partial_name(file)[1] if needs_partial else frozenset())
    return Match(mention.node, "", edits, imports, frozenset({helper}), kind=Kind.SITE)


def _rename(file: File, mention: Mention, options: Options) -> Match:
    """The same call of `spmd_map`, without what is the default."""
    try:
        plain = plain_options(options)
        edits = _without_defaults(options, plain, mention.node)
        _check_helper(options, plain, edits)
        short = _short_axes(options, plain)
        if is_mapped_again(file, mention.node, options.operand):
            raise UnsupportedError(MAPPED_AGAIN)
        if is_lowered(file, mention) and any(file.project.paths_with("in_axes")):
            raise UnsupportedError(LOWERED)
    except UnsupportedError as error:
        return Match(mention.node, str(error), kind=Kind.SITE)
    keywords = {"in_axes": AXES, "donate_argnums": DONATING}
    said = options.keywords.keys() - edits.keys()
    needs = frozenset(need for word, need in keywords.items() if word in said)
    helper = HelperRequest(HELPER, needs, plain.axis)
    new = (file.replace(mention.name, HELPER), *(short | edits).values())
    return Match(mention.node, "", new, helpers=frozenset({helper}), kind=Kind.SITE)


def _without_defaults(options: Options, plain: PlainOptions, node: ast.expr) -> dict[str, Edit]:
    """The edits that leave out keywords such as `in_axes=(0, 0)`, unless comments are around."""
    file, edits = options.file, dict[str, Edit]()
    said = {
        "axis_name": plain.axis,
        "in_axes": plain.in_axes != 0,
        "out_axes": plain.out_axes != 0,
        "static_broadcasted_argnums": plain.static,
        "donate_argnums": options.donation,
    }
    for name, value in options.keywords.items():
        if not said.get(name, options.text(name)):
            assert isinstance(node, ast.Call)
            values = [*node.args, *(keyword.value for keyword in node.keywords)]
            ends = [end(other) for other in values if position(other) < position(value)]
            gap = between(max(ends, default=position(value)), end(value))
            if ends and not has_comment(file.text(gap)):
                edits[name] = Edit(file.span(gap), "")
    return edits


def _short_axes(options: Options, plain: PlainOptions) -> dict[str, Edit]:
    """The edit of axes of which one is a tree, that a helper takes as one number."""
    node = options.keywords.get("in_axes", ast.Tuple([]))
    parts = getattr(options.file.definition(node), "elts", ())
    if not any(isinstance(part, (ast.Tuple, ast.List, ast.Dict)) for part in parts):
        return {}
    if has_comment(options.file.text(node)):
        raise UnsupportedError("there are comments in its in_axes: rewrite it by hand")
    return {"in_axes": options.file.replace(node, str(plain.in_axes))}


def _check_helper(options: Options, plain: PlainOptions, dropped: Collection[str]) -> None:
    """Refuse what `spmd_map` does not take."""
    if plain.static:
        raise UnsupportedError(STATIC)
    others = sorted(options.keywords.keys() - _TAKEN - {*dropped})
    if others:
        raise UnsupportedError(f"it has `{others[0]}=`: write jax.jit(jax.shard_map(...)) for it")
    if not {0} <= {*each(plain.in_axes)} <= {0, None}:
        raise UnsupportedError(
            "it maps over other axes than the first: write jax.jit(jax.shard_map(...)) with specs"
        )


@remembered
def _style(file: File) -> Style:
    """The style of a file: many lines are looked at, so only what is laid out asks for it."""
    return Style.of(file.source.text)


def kind_of(mention: Mention) -> Kind:
    """Whether a function is mapped where pmap is named, or pmap is handed on as a value."""
    return Kind.SITE if mention.use in (Use.CALL, Use.DECORATOR) else Kind.VALUE


def _why_not(file: File, mention: Mention, inside: Mapping[ast.AST, str]) -> str | None:
    """Why a mention of pmap is not rewritten."""
    if not mention.is_own:
        return _not_own(mention.path)
    if mention.node in inside:
        return inside[mention.node]
    if mention.use is Use.COMPARED:
        return COMPARED
    if _tests_a_stand_in(file):
        return "this test swaps jax.pmap for a stand-in, chex.fake_pmap"
    if is_shadowed(file, mention.name, HELPER):
        return _means_another(HELPER)
    return MANY_PROCESSES if file.many_processes else why_left_alone(file, mention)


def _others(file: File) -> Iterator[Match]:
    """What is mapped by another library's pmap, by whatever name."""
    mentioned = {mention.node for mention in file.mentions}
    for site in file.sites:
        origin = site.transform.origin
        if site.role is Role.MAP and origin not in OWN and site.node not in mentioned:
            yield Match(site.node, _not_own(origin), kind=Kind.SITE)


def list_unfollowed(file: File, goal: Goal) -> Iterator[Match]:
    """Calls of a pmap that cannot be followed, whatever the goal, with what to do about each.

    A function of the project that is called pmap changes where it is defined, and so do its calls.
    """
    del goal
    for unfollowed in file.unfollowed:
        if unfollowed.by is not MappedBy.FUNCTION:
            yield Match(unfollowed.call, _why_unfollowed(unfollowed), kind=Kind.SITE)


def _why_unfollowed(one: Unfollowed) -> str:
    if one.by is MappedBy.TABLE:
        return f"{one.name} is a table's: it maps with what the table has; look where that is set"
    return (
        f"{one.name} is a pmap of another library or module: give its path, too, if it is the "
        "project's, or look for its successor of pmap"
    )


def _not_own(path: str) -> str:
    return f"{path} {_OTHER.get(path, 'is not jax.pmap')}"


_OTHER = {
    "equinox.filter_pmap": "maps only the arrays of a tree: use eqx.filter_jit",
    "flax.nnx.pmap": "carries nnx objects in and out: use nnx.jit with nnx.shard_map",
    "flax.experimental.nnx.pmap": "carries nnx objects in and out: use nnx.jit",
    "objax.Parallel": "carries objax variables in and out: use jax.shard_map over their values",
}


def _tests_a_stand_in(file: File) -> bool:
    """Whether the file is a test that runs under `with chex.fake_pmap():`."""
    if not is_test(file.path) or "fake_pmap" not in file.source.text:
        return False
    contexts = [i.context_expr for w in file.index.nodes(ast.With) for i in w.items]
    return any("fake_pmap" in file.text(expression) for expression in contexts)


def _why_looked_into(file: File) -> str | None:
    """Why no site of a file can be rewritten: it swaps pmap, unwraps it, or may run without JAX."""
    if is_optional(file.index):
        return OPTIONAL
    attributes = file.index.nodes(ast.Attribute)
    if any(node.attr == "__wrapped__" for node in attributes):
        return "this file uses `__wrapped__`, which is another function after the rewrite"
    swapped = any(n.attr == "pmap" and not isinstance(n.ctx, ast.Load) for n in attributes)
    if swapped or any(_swaps_pmap(call) for call in file.index.nodes(ast.Call)):
        return "this file swaps jax.pmap for another function, which would not be called"
    return None


def _swaps_pmap(call: ast.Call) -> bool:
    """``monkeypatch.setattr(jax, "pmap", …)``, ``mock.patch("jax.pmap")`` and the like."""
    name = last_name(call.func)
    texts = [arg.value for arg in call.args if isinstance(arg, ast.Constant)]
    return name in ("setattr", "patch", "object") and ("pmap" in texts or "jax.pmap" in texts)


def _means_another(name: str) -> str:
    return f"the name `{name}` means something else here"


def _levels(file: File, mention: Mention) -> tuple[list[Options], list[ast.AST]]:
    """The options of a pmap and of those directly inside it, and the nodes of the latter."""
    if mention.use is Use.CALL:
        assert isinstance(mention.node, ast.Call)
        levels, inside = levels_of(file, mention.node)
        return levels, list(inside)
    if mention.use is Use.DECORATOR:
        stack = _stack(file, mention.node)
        levels = [decorating(file, decorator) for decorator in stack]
        return levels, [node for decorator in stack for node in ast.walk(decorator)]
    parent = file.index.parents.get(mention.node)
    is_named = file.called(parent) == "functools.partial"
    raise UnsupportedError(GETS_A_NAME if is_named else PASSED_ON)


def _rewrite_nested(file: File, mention: Mention, levels: list[Options], style: Style) -> Match:
    """pmaps directly inside one another, as one shard_map over a mesh of several axes."""
    for needed in (jax_name(file)[0], PER_DEVICE):
        if is_shadowed(file, mention.name, needed):
            raise UnsupportedError(_means_another(needed))
    form, node = form_of(levels, style), mention.node
    helpers = frozenset({HelperRequest(PER_DEVICE)})
    if mention.use is Use.DECORATOR:
        stack = _stack(file, node)
        if has_comment(file.text(between(position(stack[0]), end(stack[-1])))):
            raise UnsupportedError("there are comments between the arguments of nested pmaps")
        place = file.stretch(*position(stack[0]), *end(stack[-1]))
        edit, inner = Edit(place, decorators(file, stack, form, style)), tuple(stack[1:])
        return Match(node, "", (edit,), jax_name(file)[1], helpers, kind=Kind.SITE, sites=inner)
    operand = levels[-1].operand
    assert isinstance(node, ast.Call)
    if operand is None or isinstance(operand, ast.GeneratorExp | ast.NamedExpr | ast.Yield):
        raise UnsupportedError("what is mapped by nested pmaps is not a plain expression")
    if has_comments(file, node, operand):
        raise UnsupportedError("there are comments between the arguments of nested pmaps")
    edits = edits_of(file, node, operand, form, style)
    return Match(node, "", edits, jax_name(file)[1], helpers, kind=Kind.SITE)


def _stack(file: File, node: ast.expr) -> list[ast.expr]:
    """The pmap decorators around one, as far as they follow each other."""
    function = file.index.parents[node]
    assert isinstance(function, ast.FunctionDef)
    around = function.decorator_list
    stack = [node]
    for one in around[around.index(node) + 1 :]:
        name = one.args[0] if isinstance(one, ast.Call) and one.args else one
        if file.name(name) not in OWN:
            break
        stack.append(one)
    return stack
