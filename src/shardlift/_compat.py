"""Every difference between JAX versions, and every name that is not public JAX API.

Each entry says when it was last checked, and has a public fallback that is tested too.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import itertools
import os
import re
import sysconfig
import threading
import types
from collections.abc import Callable
from typing import Any, Protocol, cast

import jax

VERSION = tuple(int(part) for part in jax.__version__.split(".")[:2])
if VERSION < (0, 10):
    raise ImportError(
        f"shardlift needs JAX 0.10 or newer, and this is {jax.__version__}: pip install -U jax. "
        "`shardlift check` and `migrate` need none."
    )

# 2026-11, jax 0.10.2, CPU with several devices: a jitted function that is given a donated, hence
# deleted, array ends the process with a segmentation fault; 0.12.0 raises "Array has been
# deleted". One device, and every device since 0.12, needs no help.
DELETED_INPUT_CRASHES = VERSION < (0, 12)


def raise_if_deleted(tree: Any) -> None:
    """Say what newer JAX says of an input that was donated before."""
    for leaf in jax.tree.leaves(tree):
        is_array = isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer)
        if is_array and leaf.is_deleted():
            raise RuntimeError(f"Array has been deleted with shape={leaf.dtype}{list(leaf.shape)}.")


def jit_disabled() -> bool:
    """Is ``jax.disable_jit`` in force?"""
    return bool(jax.config.values["jax_disable_jit"])


def _tracing_public() -> Callable[[], bool]:
    """Are we under a JAX transformation? By public API: 0.5 microseconds a question."""
    # Not at the top: it brings Pallas with it, which takes 50 ms and more (2026-11, 0.12.0).
    import jax.extend.core as extend

    outside: list[Any] = []

    def look() -> None:
        outside.append(extend.get_opaque_trace_state())

    # A new thread is under no transformation, even if this module is imported under one.
    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    return lambda: bool(extend.get_opaque_trace_state() != outside[0])


def _tracing_private() -> Callable[[], bool]:
    """The same in 0.07 microseconds, from names that are not public (2026-11: 0.10.2, 0.12.0)."""
    from jax._src import core

    context, outside = core.trace_ctx, core.eval_trace
    if context.trace is not outside and not _tracing_public()():
        raise AttributeError("jax._src.core.trace_ctx means something else in this version")
    return lambda: context.trace is not outside


def _fastest_tracing() -> Callable[[], bool]:
    try:
        return _tracing_private()
    except (ImportError, AttributeError):
        return _tracing_public()


tracing: Callable[[], bool] = _fastest_tracing()


class Coordination(Protocol):
    """What is used of the client of JAX's coordination service. Times are in milliseconds."""

    def key_value_set(self, key: str, value: str, allow_overwrite: bool = ...) -> None:
        """Leave ``value`` under ``key``."""

    def key_value_dir_get(self, key: str) -> list[tuple[str, str]]:
        """Every key that starts with ``key``, with its value; does not wait."""

    def blocking_key_value_get(self, key: str, timeout_in_ms: int) -> str:
        """The value under ``key``, waiting until somebody leaves one."""

    def wait_at_barrier(self, barrier_id: str, timeout_in_ms: int) -> None:
        """Wait until all processes are here."""


def coordination() -> Coordination | None:
    """The coordination service of this job; None in a job of one, or where JAX moved it.

    Not public in 0.10.2 nor 0.12.0 (checked 2026-11): ``jax.distributed`` offers only
    ``initialize``, ``is_initialized`` and ``shutdown``. Callers fall back on
    ``jax.experimental.multihost_utils``, which has no time-out and does not say who is missing.
    """
    try:
        state = importlib.import_module("jax._src.distributed").global_state
        return cast("Coordination | None", state.client)
    except (ImportError, AttributeError):
        return None


def view_type(array: jax.Array, shape: tuple[int, ...]) -> Any:
    """What `rewrapped_as` wants to know of a view of ``array`` that has another shape."""
    return jax.core.ShapedArray(shape, array.dtype, weak_type=array.weak_type)


def _rewrap_public(array: jax.Array, aval: Any, sharding: jax.sharding.Sharding) -> jax.Array:
    """The buffers of ``array`` under another shape and sharding: 11 microseconds and more."""
    shards = [shard.data for shard in array.addressable_shards]
    return jax.make_array_from_single_device_arrays(aval.shape, sharding, shards)


def _rewrap_private() -> Callable[[Any, Any, jax.sharding.Sharding], jax.Array] | None:
    """The same in a third of the time; jax.pmap itself does it so (2026-11: 0.10.2, 0.12.0)."""
    try:
        array_type = importlib.import_module("jax._src.array").ArrayImpl
        return cast("Any", array_type._rewrap_with_aval_and_sharding)
    except (ImportError, AttributeError):
        return None


# Done for every output of a pmapped call in a job of many processes.
rewrapped_as = _rewrap_private() or _rewrap_public


def rewrapped(
    array: jax.Array, shape: tuple[int, ...], sharding: jax.sharding.Sharding
) -> jax.Array:
    """The buffers of ``array``, which may be a part of a larger one, as an array of ``shape``."""
    return rewrapped_as(array, view_type(array, shape), sharding)


Runner = Callable[[list[Any]], list[Any]]


def _context_private() -> Callable[[], Any]:
    """What `jit` compares, besides arguments, to take a program again (2026-11: 0.10.2, 0.12.0)."""
    config = importlib.import_module("jax._src.config")
    traced, nans, infs = config.trace_context, config.debug_nans, config.debug_infs

    def context() -> Any:
        return None if nans.value or infs.value else traced()

    context()
    return context


def _context_public() -> None:
    """Not known: nothing may be run past `jit`."""


def _fastest_context() -> Callable[[], Any]:
    try:
        return _context_private()
    except (ImportError, AttributeError):
        return _context_public


context: Callable[[], Any] = _fastest_context()


def runner(compiled: jax.stages.Compiled, inputs: int) -> Runner | None:
    """Runs a compiled program on the buffers that this process has of its inputs.

    Arrays in and out as flat lists. The program's own call insists on global arrays; below it,
    only buffers count. None where that cannot be had, by a program with effects or in another
    JAX: then arrays are converted (2026-11: 0.10.2, 0.12.0).
    """
    try:
        call = compiled._executable.unsafe_call  # type: ignore[attr-defined]
        effects = call.ordered_effects, call.has_unordered_effects, call.has_host_callbacks
        if any((*effects, call.mut, call.pgle_profiler)) or context() is None:
            return None
        kept = sorted(call.kept_var_idx)
        execute, handlers = call.xla_executable.execute_sharded, call.out_handler.handlers
        if len(compiled._executable.in_avals) != len(kept) or max(kept, default=0) >= inputs:  # type: ignore[attr-defined]
            return None
    except AttributeError:
        return None

    def run(leaves: list[Any]) -> list[Any]:
        used = leaves if len(kept) == inputs else [leaves[k] for k in kept]
        return list(execute(used).consume_with_handlers(handlers))

    run.compiled = compiled  # type: ignore[attr-defined] # lives as long as what it runs
    return run


def register_cache(cache: Any, for_what: str) -> None:
    """Have JAX clear ``cache`` with its own, by `jax.clear_caches` and `clear_backends`.

    The public name is ``jax.extend.backend.register_backend_cache``, but ``jax.extend`` takes
    50 ms and more to import (2026-11, 0.12.0).
    """
    try:
        register = importlib.import_module("jax._src.util").register_cache
    except (ImportError, AttributeError):
        register = importlib.import_module("jax.extend.backend").register_backend_cache
    register(cache, for_what)


def scan_parts(eqn: Any) -> tuple[int, int] | None:
    """How many operands of a ``scan`` equation are constants, and how many are carried.

    The parameters say it by number (0.10.2) or by the tree of the operands (0.12.0); both are
    not public (2026-11). None where they say neither.
    """
    params = eqn.params
    if "num_consts" in params and "num_carry" in params:
        return params["num_consts"], params["num_carry"]
    try:
        consts, carry, xs = (len(list(part)) for part in params["ft_in"].unpack())
    except (KeyError, AttributeError, TypeError, ValueError):
        return None
    return (consts, carry) if consts + carry + xs == len(eqn.invars) else None


def map_axes(eqn: Any) -> dict[Any, int] | None:
    """The axes that a ``shard_map`` equation maps over, and their sizes.

    Not public (2026-11: 0.10.2, 0.12.0). None where the equation does not say.
    """
    mesh, names = eqn.params.get("mesh"), eqn.params.get("newly_manual_axes")
    if mesh is None or names is None:
        return None
    return {name: size for name, size in mesh.shape.items() if name in names}


def expanded(eqn: Any, axes: list[tuple[Any, int]]) -> Any:
    """The jaxpr that an equation of a high-level primitive stands for; None: it cannot be had.

    Some functions of jax.numpy are one primitive that is taken apart only when it is compiled
    (0.12.0: searchsorted). How to take it apart is not public (2026-11: 0.10.2, 0.12.0).
    """
    try:
        whole = eqn.params["_prim"]

        def parts(*flat: Any) -> Any:
            return jax.tree.leaves(whole.expand(*jax.tree.unflatten(whole.in_tree, flat)))

        types = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in eqn.invars]
        jaxpr = jax.make_jaxpr(parts, axis_env=axes)(*types)
    except Exception:  # whatever a primitive of a library, or a later JAX, makes of this
        return None
    return jaxpr if len(jaxpr.out_avals) == len(eqn.outvars) else None


def source_line(eqn: Any) -> tuple[str, int, str] | None:
    """File, line and function of the user's code that made an equation; None: JAX does not know.

    The innermost line that belongs to no installed package, or else to none of JAX's. The frames
    are not public (2026-11: 0.10.2, 0.12.0); where they cannot be had, the line is JAX's choice.
    An equation of shardlift's own has no line.
    """
    chosen = _line_public(eqn)
    if chosen is None or chosen[0].startswith(_HERE):
        return None
    if not is_installed(chosen[0]):
        return chosen
    # Beyond shardlift's frames is whoever called it, not the function that is mapped.
    body = itertools.takewhile(lambda line: not line[0].startswith(_HERE), lines_of(eqn))
    return next((line for line in body if not is_installed(line[0])), chosen)


_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def _line_public(eqn: Any) -> tuple[str, int, str] | None:
    """The innermost line outside of JAX, by ``jax.extend``, which gives it as text."""
    try:
        text = importlib.import_module("jax.extend.source_info_util").summarize(eqn.source_info)
    except (ImportError, AttributeError):
        return None
    found = re.fullmatch(r"(.+?):(\d+)(?::\d+)?(?: \((.*)\))?", text)
    return (found[1], int(found[2]), found[3] or "") if found else None


def lines_of(eqn: Any) -> list[tuple[str, int, str]]:
    """File, line and function of all the lines that led to an equation, the innermost first.

    Not public (2026-11: 0.10.2, 0.12.0); nobody is told where they cannot be had.
    """
    try:
        frames = eqn.source_info.traceback.frames
        return [(frame.file_name, frame.line_num, frame.function_name) for frame in frames]
    except AttributeError:
        return []


def transforms_of(equation: Any) -> str:
    """By which transformations an equation was made: ``transpose(jvp())`` in a backward pass.

    The text that compiled programs carry as the name of an operation (2026-11: 0.10.2, 0.12.0).
    Empty where equations have none.
    """
    try:
        return str(equation.source_info.name_stack)
    except AttributeError:
        return ""


def array_type() -> Any:
    """The type of arrays, if what ``x[i]`` does can be replaced in it; None if not.

    Not public (2026-11: 0.10.2, 0.12.0), and there is no public way: without it ``x[i]`` is
    what JAX makes of it.
    """
    try:
        kind = importlib.import_module("jax._src.array").ArrayImpl
    except (ImportError, AttributeError):
        return None
    return kind if isinstance(vars(kind).get("__getitem__"), types.FunctionType) else None


def _uncommitted_public(array: jax.Array) -> jax.Array:
    """A copy, by way of the host, that is committed to no device."""
    return jax.numpy.asarray(jax.device_get(array))


def _uncommitted_private(array: Any) -> jax.Array:
    """The same buffer, committed to no device (2026-11: 0.10.2, 0.12.0)."""
    made: jax.Array = type(array)(array.aval, array.sharding, [array], committed=False)
    return made


def uncommitted(array: jax.Array) -> jax.Array:
    """An array on one device as one that goes together with arrays on any."""
    try:
        return _uncommitted_private(array)
    except TypeError:
        return _uncommitted_public(array)


class Option(Protocol):
    """What is asked of an option that is added to ``jax.config``."""

    name: str

    @property
    def value(self) -> Any:
        """The value, to JAX."""

    def read(self) -> Any:
        """The value, to the program."""

    def _set(self, value: Any) -> None:
        """Take another value."""


def add_option(
    set_attribute: Callable[[Any, str, Any], None],
    set_item: Callable[[Any, Any, Any], None],
    option: Option,
) -> None:
    """Have ``jax.config`` know an option, to set, to read and as a flag of absl.

    ``set_attribute(owner, name, value)`` and ``set_item(owner, key, value)`` do the changes.
    """
    config = jax.config
    set_attribute(type(config), option.name, property(lambda _: option.read()))
    try:
        _add_option_private(config, set_item, option)
    except AttributeError:
        _add_option_public(config, set_attribute, option)


def _add_option_private(config: Any, set_item: Any, option: Option) -> None:
    """With its flag (2026-11: 0.10.2, 0.12.0)."""
    holders, flags = config._value_holders, config.meta
    set_item(holders, option.name, option)
    about = {"help": "Restored by shardlift; it changes nothing."}
    set_item(flags, option.name, (type(option.value), [], about))


def _add_option_public(config: Any, set_attribute: Any, option: Option) -> None:
    """Only ``jax.config.update``."""
    stock = config.update

    def update(name: str, value: Any) -> None:
        if name == option.name:
            option._set(value)
        else:
            stock(name, value)

    set_attribute(config, "update", update)


def leave_out_of_tracebacks(folder: str) -> None:
    """Have JAX take out frames of files in ``folder`` where it takes out its own.

    Not public (2026-11: 0.10.2, 0.12.0); without it a few more frames are shown.
    """
    with contextlib.suppress(ImportError, AttributeError):
        importlib.import_module("jax._src.traceback_util").register_exclusion(folder)


def axis_names() -> list[Any]:
    """The names of the mapped axes around here, of vmaps too.

    Not public (2026-11: 0.10.2, 0.12.0); the public way knows those of meshes only.
    """
    try:
        return list(importlib.import_module("jax._src.core").get_axis_env().axis_sizes)
    except (ImportError, AttributeError):
        return list(jax.sharding.get_abstract_mesh().manual_axes)


@functools.cache
def is_installed(file: str) -> bool:
    """Does a file belong to Python or to an installed package?"""
    paths = sysconfig.get_paths()
    homes = [paths[name] + os.sep for name in ("stdlib", "purelib", "platlib")]
    return file.startswith(("<", *homes)) or "site-packages" in file


def run_equation(eqn: Any, operands: list[Any]) -> list[Any]:
    """Run one equation of a jaxpr; its outputs, as a list.

    As ``jax.core.eval_jaxpr`` does it. ``get_bind_params`` and the equation's context are not
    documented (2026-11: 0.10.2, 0.12.0); without them the parameters are taken as they are.
    """
    primitive, params = eqn.primitive, eqn.params
    if hasattr(primitive, "get_bind_params"):
        params = primitive.get_bind_params(params)
    context = getattr(getattr(eqn, "ctx", None), "manager", None) or contextlib.nullcontext()
    with context:
        out = primitive.bind(*operands, **params)
    return list(out) if primitive.multiple_results else [out]
