"""Names that JAX no longer has: when each went, and what took its place.

Every row is checked against the installed JAX by `tests/codemod/test_removed.py`: present before,
absent from `gone` on, the successor there. The releases are those of JAX's own change log.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from shardlift.codemod.file import File
from shardlift.codemod.finding import Edit, Match, Version
from shardlift.codemod.guarded import is_guarded
from shardlift.codemod.imports import bound_name, dropped, moved
from shardlift.codemod.reaching import reaching
from shardlift.codemod.values import External

# The modules that `import jax` brings with it.
_WITH_JAX = frozenset(
    f"jax{name}"
    for name in (
        *("", ".core", ".lax", ".nn", ".numpy", ".ops", ".random"),
        *(".sharding", ".tree", ".tree_util"),
    )
)


@dataclass(frozen=True)
class Removed:
    """One name; `same` says that the successor is the very same thing under another name."""

    name: str
    gone: Version
    successor: str = ""
    same: bool = False


def _renamed(gone: Version, old: str, new: str, pairs: str) -> tuple[Removed, ...]:
    """`pairs` reads `tree_map=map tree_leaves=leaves`."""
    return tuple(
        Removed(f"{old}.{was}", gone, f"{new}.{now or was}", same=True)
        for was, _, now in (pair.partition("=") for pair in pairs.split())
    )


def _dropped(gone: Version, parent: str, names: str, successor: str = "") -> tuple[Removed, ...]:
    return tuple(Removed(f"{parent}.{name}", gone, successor) for name in names.split())


PLACEMENT = _dropped((0, 10), "jax", "device_put_sharded device_put_replicated")

TREES = (
    *_renamed(
        (0, 6),
        "jax",
        "jax.tree",
        "tree_map=map tree_leaves=leaves tree_flatten=flatten tree_unflatten=unflatten "
        "tree_structure=structure tree_transpose=transpose",
    ),
    *_renamed((0, 4, 26), "jax", "jax.tree", "tree_all=all"),
    *_renamed((0, 6), "jax", "jax.tree_util", "treedef_is_leaf"),
    *_renamed((0, 4), "jax", "jax.tree_util", "treedef_tuple treedef_children"),
    *_renamed((0, 3, 16), "jax", "jax.tree", "tree_multimap=map"),
    *_renamed((0, 3, 16), "jax.tree_util", "jax.tree_util", "tree_multimap=tree_map"),
)

SHARDINGS = (
    Removed("jax.sharding.PmapSharding", (0, 10), "jax.sharding.NamedSharding"),
    Removed("jax.sharding.PositionalSharding", (0, 7), "jax.sharding.NamedSharding"),
    Removed("jax.sharding.GSPMDSharding", (0, 7), "jax.sharding.NamedSharding"),
    Removed("jax.sharding.OpShardingSharding", (0, 4, 12), "jax.sharding.NamedSharding"),
    Removed("jax.sharding.XLACompatibleSharding", (0, 4, 34), "jax.sharding.Sharding"),
    Removed("jax.sharding.use_mesh", (0, 7, 1), "jax.set_mesh", same=True),
    *_renamed((0, 4, 11), "jax.experimental", "jax.sharding", "PartitionSpec"),
    *_renamed((0, 4, 11), "jax.experimental.pjit", "jax.sharding", "PartitionSpec NamedSharding"),
    *_renamed((0, 4, 11), "jax.interpreters.pxla", "jax.sharding", "PartitionSpec Mesh"),
    *_renamed((0, 4, 31), "jax.experimental.maps", "jax.sharding", "Mesh"),
    # The migration guide names it here; it has only ever been in jax.sharding.
    *_renamed((0,), "jax", "jax.sharding", "SingleDeviceSharding"),
)

PXLA = (
    *_dropped(
        (0, 10),
        "jax.interpreters.pxla",
        "PmapExecutable parallel_callable shard_args xla_pmap_p Chunked NoSharding Replicated "
        "ShardedAxis ShardingSpec spec_to_indices",
    ),
    *_dropped((0, 11), "jax.interpreters.pxla", "MeshExecutable global_result_handlers"),
    *_dropped((0, 4, 14), "jax.interpreters.pxla", "ShardedDeviceArray", "jax.Array"),
    *_dropped((0, 4, 14), "jax.interpreters.pxla", "make_sharded_device_array"),
    *_dropped((0, 4, 11), "jax.interpreters.xla", "DeviceArray", "jax.Array"),
    *_dropped((0, 4, 36), "jax.interpreters.xla", "xb xc xe"),
    *_dropped((0, 7), "jax.interpreters.xla", "abstractify pytype_aval_mappings"),
    *_dropped((0, 8), "jax.interpreters.xla", "canonicalize_dtype"),
    Removed("jax.soft_pmap", (0, 3, 18)),
)

MODULES = (
    Removed("jax.experimental.maps", (0, 4, 31), "jax.shard_map"),
    Removed("jax.experimental.stax", (0, 3, 16), "jax.example_libraries.stax", same=True),
    Removed(
        "jax.experimental.optimizers", (0, 3, 16), "jax.example_libraries.optimizers", same=True
    ),
    Removed("jax.experimental.loops", (0, 3, 16)),
    Removed("jax.experimental.host_callback", (0, 8), "jax.experimental.io_callback"),
    Removed("jax.experimental.global_device_array", (0, 4, 7), "jax.Array"),
    Removed("jax.experimental.sharded_jit", (0, 3, 18), "jax.jit"),
    Removed("jax.experimental.export", (0, 4, 36), "jax.export"),
    Removed("jax.interpreters.sharded_jit", (0, 3, 18), "jax.jit"),
    Removed("jax.lib.xla_bridge", (0, 9), "jax.extend.backend"),
    *_renamed((0, 9), "jax.lib.xla_bridge", "jax.extend.backend", "get_backend"),
    *_renamed(
        (0, 9),
        "jax.lib.xla_bridge",
        "jax",
        "device_count local_device_count devices local_devices process_index process_count "
        "default_backend",
    ),
    Removed("jax.lib.xla_client", (0, 9), "jax.extend"),
    Removed("jax.lib.xla_extension", (0, 9), "jax.extend"),
    Removed("jax.linear_util", (0, 4, 24), "jax.extend.linear_util", same=True),
    Removed("jax.abstract_arrays", (0, 4, 17), "jax.core"),
    *_renamed((0, 4, 17), "jax.abstract_arrays", "jax.core", "ShapedArray"),
    Removed("jax.prng", (0, 4, 24), "jax.extend.random"),
    Removed("jax.api", (0, 2, 21), "jax"),
    *_renamed((0, 2, 21), "jax.api", "jax", "jit grad value_and_grad vmap jacfwd jacrev jvp vjp"),
    Removed("jax.util", (0, 8)),
    Removed("jax.cloud_tpu_init", (0, 11)),
    Removed("jax.tools.colab_tpu", (0, 10)),
)

NUMPY = (
    *_renamed(
        (0, 4, 16),
        "jax.numpy",
        "jax.numpy",
        "product=prod cumproduct=cumprod alltrue=all sometrue=any",
    ),
    *_renamed((0, 4, 24), "jax.numpy", "jax.numpy", "row_stack=vstack in1d=isin"),
    *_renamed((0, 4, 38), "jax.numpy", "jax.numpy", "round_=round"),
    *_renamed((0, 10), "jax.numpy", "jax.numpy", "fix=trunc"),
    Removed("jax.numpy.trapz", (0, 4, 24), "jax.scipy.integrate.trapezoid", same=True),
    Removed("jax.numpy.msort", (0, 4, 9), "jax.numpy.sort"),
    Removed("jax.numpy.DeviceArray", (0, 4, 14), "jax.Array", same=True),
    Removed("jax.random.KeyArray", (0, 4, 24), "jax.Array", same=True),
    Removed("jax.random.PRNGKeyArray", (0, 4, 24), "jax.Array", same=True),
    Removed("jax.random.shuffle", (0, 4, 31), "jax.random.permutation"),
    *_dropped((0, 3, 2), "jax.ops", "index_update index_add index_mul index_min index_max index"),
    Removed("jax.lax.tie_in", (0, 4, 29)),
    Removed("jax.partial", (0, 2, 21), "functools.partial", same=True),
)

CORE = (
    *_renamed(
        (0, 6),
        "jax.core",
        "jax.extend.core",
        "ClosedJaxpr Jaxpr JaxprEqn Literal Primitive Var jaxpr_as_fun",
    ),
    *_dropped((0, 7), "jax.core", "AxisName axis_frame trace_state_clean"),
    *_dropped(
        (0, 6), "jax.core", "full_lower raise_to_shaped reset_trace_state ConcreteArray NamedShape"
    ),
    *_dropped(
        (0, 11),
        "jax.core",
        "concrete_or_error gensym new_jaxpr_eqn unsafe_am_i_under_a_jit_DO_NOT_USE "
        "unsafe_get_axis_names_DO_NOT_USE",
    ),
    *_dropped((0, 10), "jax.core", "get_aval", "jax.typeof"),
    *_dropped((0, 10), "jax.core", "mapped_aval unmapped_aval"),
    *_dropped((0, 10), "jax.experimental", "enable_x64 disable_x64", "jax.enable_x64"),
    *_dropped((0, 10), "jax.lax", "pvary", "jax.lax.pcast"),
    Removed("jax.xla_computation", (0, 4, 36)),
    Removed("jax.clear_backends", (0, 4, 36), "jax.extend.backend.clear_backends"),
    Removed("jax.mask", (0, 3, 16)),
    Removed("jax.ShapedArray", (0, 4, 14), "jax.core.ShapedArray", same=True),
)

TABLE = (*PLACEMENT, *TREES, *SHARDINGS, *PXLA, *MODULES, *NUMPY, *CORE)


def uses(file: File, rows: tuple[Removed, ...]) -> Iterator[tuple[ast.AST, Removed]]:
    """Every place where the file names one of the rows, once, unless a guard stands around it."""
    for node, row in _attributes(file, rows):
        if not is_guarded(file, node):
            yield node, row
    for node, row in _imports(file, rows):
        if not is_guarded(file, node):
            yield node, row


def gone(file: File, rows: tuple[Removed, ...], why: str = "") -> Iterator[Match]:
    """A match for each use of a name that the target no longer has."""
    for node, row in uses(file, rows):
        if row.gone <= file.target:
            text = sentence(row) + (f"; {why}" if why else "")
            yield Match(node, text, *fix(file, node, row))


def sentence(row: Removed) -> str:
    """`jax.tree_map was removed in JAX 0.6: use jax.tree.map`."""
    if row.gone == (0,):
        when = "does not exist"
    else:
        when = f"was removed in JAX {'.'.join(map(str, row.gone))}"
    if not row.successor:
        return f"{row.name} {when}"
    return f"{row.name} {when}: {'use' if row.same else 'see'} {row.successor}"


Fix = tuple[tuple[Edit, ...], frozenset[str]]
_NO_FIX: Fix = (), frozenset()


def fix(file: File, node: ast.AST, row: Removed) -> Fix:
    """The safe edits, and the imports that they need, where the successor is the same thing."""
    if not row.same:
        return _without_module(file, node) if isinstance(node, ast.alias) else _NO_FIX
    if isinstance(node, ast.Attribute):
        return _respelled(file, node, row)
    statement = file.index.parents.get(node)
    if isinstance(node, ast.alias) and isinstance(statement, ast.ImportFrom):
        return _from_elsewhere(file, statement, row), frozenset()
    if isinstance(node, ast.alias) and node.name.startswith(row.name):
        new = row.successor + node.name[len(row.name) :]
        return (file.replace(node, f"{new} as {node.asname}" if node.asname else new),), frozenset()
    return _NO_FIX


def _without_module(file: File, alias: ast.alias) -> Fix:
    """Take out the import of a module if all that is used of it has successors."""
    statement = file.index.parents[alias]
    name = bound_name(alias)
    if not isinstance(statement, ast.ImportFrom | ast.Import) or name == "jax":
        return _NO_FIX
    rows = {row.name: row for row in TABLE if row.same and row.gone <= file.target}
    imports: set[str] = set()
    uses = [node for node in file.index.nodes(ast.Name) if node.id == name]
    for use in uses:
        parent = file.index.parents[use]
        row = rows.get(file.name(parent) or "")
        if row is None or not isinstance(parent, ast.Attribute):
            return _NO_FIX
        edits, needed = _respelled(file, parent, row)
        if not edits:
            return _NO_FIX
        imports |= needed
    return (dropped(file, statement, [alias]), frozenset(imports)) if uses else _NO_FIX


def _from_elsewhere(file: File, statement: ast.ImportFrom, row: Removed) -> tuple[Edit, ...]:
    """The edits for all the names of a statement that have moved: they go together."""
    module = statement.module or ""
    if module == row.name or module.startswith(row.name + "."):
        start = statement.lineno, statement.col_offset + len("from ")
        end = start[0], start[1] + len(module)
        if file.lines[start[0] - 1].encode()[start[1] : end[1]] != module.encode():
            return ()
        return (Edit(file.stretch(*start, *end), row.successor + module[len(row.name) :]),)
    successors = {r.name: importable(r) for r in TABLE if r.same and r.gone <= file.target}
    to = {
        alias: successors[f"{module}.{alias.name}"]
        for alias in statement.names
        if f"{module}.{alias.name}" in successors
    }
    return moved(file, statement, to)


def importable(row: Removed) -> tuple[str, str]:
    """The module and the name under which a successor can be imported."""
    # jax.tree is a module whose functions have no names of their own; jax.tree_util's have.
    module, _, name = row.successor.replace("jax.tree.", "jax.tree_util.tree_").rpartition(".")
    return module, name


def _respelled(file: File, node: ast.Attribute, row: Removed) -> Fix:
    """The successor by a name that the file already has, or by its full one with an import."""
    old_base, new_base = row.name.rpartition(".")[0], row.successor.rpartition(".")[0]
    written = file.text(node.value)
    if new_base == old_base:
        text = f"{written}.{row.successor.rpartition('.')[2]}"
        return (file.replace(node, text),), frozenset()
    if new_base.startswith(old_base + ".") and new_base in _WITH_JAX:
        return (file.replace(node, written + row.successor[len(old_base) :]),), frozenset()
    swapped = _other_module(file, node, row)
    if swapped:
        return swapped, frozenset()
    root = row.successor.partition(".")[0]
    if file.exported(root) not in ((), (External(root),)) or _is_local(file, node, root):
        return _NO_FIX
    there = new_base in _WITH_JAX and bool(file.exported(root))
    needed = root if new_base in _WITH_JAX else new_base
    imports = frozenset() if there else frozenset({f"import {needed}"})
    return (file.replace(node, row.successor),), imports


def _other_module(file: File, node: ast.Attribute, row: Removed) -> tuple[Edit, ...]:
    """`from jax.extend import core` for `from jax import core`, if that does for all of its uses."""
    new = row.successor.rpartition(".")[0]
    bound = reaching(file.index, node.value) if isinstance(node.value, ast.Name) else []
    alias = bound[0] if len(bound) == 1 else None
    statement = file.index.parents.get(alias) if isinstance(alias, ast.alias) else None
    if not isinstance(alias, ast.alias) or not isinstance(statement, ast.ImportFrom):
        return ()
    if alias.name != new.rpartition(".")[2] or statement.level:
        return ()
    moves = {r.name: r.successor for r in TABLE if r.same and r.gone <= file.target}
    for use in file.index.nodes(ast.Name):
        if use.id == bound_name(alias):
            parent = file.index.parents[use]
            ending = getattr(parent, "attr", "")
            if moves.get(file.name(parent) or "") != f"{new}.{ending}":
                return ()
    return moved(file, statement, {alias: (new.rpartition(".")[0], alias.name)})


def _is_local(file: File, node: ast.AST, name: str) -> bool:
    """Whether a function around a node has another thing of that name."""
    scopes = (file.index.opens.get(parent) for parent in file.index.ancestors(node))
    return any(name in s.names for s in scopes if s is not None and s.parent is not None)


def _attributes(file: File, rows: tuple[Removed, ...]) -> Iterator[tuple[ast.AST, Removed]]:
    by_name = {row.name: row for row in rows}
    last = {name.rpartition(".")[2] for name in by_name}
    for node in file.index.nodes(ast.Attribute):
        if node.attr in last and isinstance(node.ctx, ast.Load):
            row = by_name.get(file.name(node) or "")
            if row is not None and _root_is_name(node) and not _leads_on(file, node, by_name):
                yield node, row


def _leads_on(file: File, node: ast.Attribute, by_name: dict[str, Removed]) -> bool:
    """Whether a module is named on the way to a name of it that has a row of its own."""
    parent = file.index.parents.get(node)
    return isinstance(parent, ast.Attribute) and (file.name(parent) or "") in by_name


def _root_is_name(node: ast.Attribute) -> bool:
    """Whether the chain is names all the way down: `f().tree_map` is something else."""
    root: ast.expr = node
    while isinstance(root, ast.Attribute):
        root = root.value
    return isinstance(root, ast.Name)


def _imports(file: File, rows: tuple[Removed, ...]) -> Iterator[tuple[ast.AST, Removed]]:
    by_name = {row.name: row for row in rows}
    for statement in file.index.nodes(ast.ImportFrom):
        if statement.level or not (statement.module or "").startswith("jax"):
            continue
        module = statement.module or ""
        whole = by_name.get(module) or _inside(module, by_name)
        for alias in statement.names:
            row = by_name.get(f"{module}.{alias.name}")
            if row is not None:
                yield alias, row
            elif whole is not None:
                yield alias, whole
                whole = None  # the module itself is gone: once is enough
    for plain in file.index.nodes(ast.Import):
        for alias in plain.names:
            row = by_name.get(alias.name) or _inside(alias.name, by_name)
            if row is not None:
                yield alias, row


def _inside(module: str, by_name: dict[str, Removed]) -> Removed | None:
    while module:
        module = module.rpartition(".")[0]
        if module in by_name:
            return by_name[module]
    return None


def names(rows: tuple[Removed, ...]) -> tuple[str, ...]:
    """The names of the rows, to look for before a file is parsed."""
    return tuple(row.name for row in rows)
