"""Every difference between JAX versions, and every use of a name that is not public JAX API.

Each entry says when it was last checked, and has a public fallback that is tested too.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import itertools
import os
import re
import threading
import types
from collections.abc import Callable, Hashable, Iterator
from typing import Any, cast

import jax

from shardlift._own_files import is_own

VERSION = tuple(int(part) for part in jax.__version__.split(".")[:2])
if VERSION < (0, 10):
    raise ImportError(
        f"shardlift needs JAX 0.10 or newer, and this is {jax.__version__}: pip install -U jax. "
        "`shardlift check` and `shardlift migrate` work without JAX."
    )

# 2026-11, jax 0.10.2, CPU with several devices: calling a jitted function with an array that was
# donated before, and so deleted, is a segmentation fault; 0.12.0 raises "Array has been deleted".
# A single device, or JAX 0.12, needs no help.
DELETED_INPUT_CRASHES = VERSION < (0, 12)


def raise_if_deleted(tree: Any) -> None:
    """Raise the error of newer JAX for an input that was donated before."""
    for leaf in jax.tree.leaves(tree):
        is_array = isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer)
        if is_array and leaf.is_deleted():
            raise RuntimeError(f"Array has been deleted with shape={leaf.dtype}{list(leaf.shape)}.")


def jit_disabled() -> bool:
    """Is ``jax.disable_jit`` in force?"""
    return bool(jax.config.values["jax_disable_jit"])


def _tracing_public() -> Callable[[], bool]:
    """A function that tells whether a JAX transformation is active; 0.5 microseconds per call."""
    # Not at the top: it imports Pallas, which takes 50 ms and more (2026-11, 0.12.0).
    import jax.extend.core as extend

    outside: list[Any] = []

    def read_state() -> None:
        outside.append(extend.get_opaque_trace_state())

    # In a new thread no transformation is active, even if this module is imported under one.
    thread = threading.Thread(target=read_state)
    thread.start()
    thread.join()
    return lambda: bool(extend.get_opaque_trace_state() != outside[0])


def _tracing_private() -> Callable[[], bool]:
    """The same in 0.07 microseconds, by names that are not public (2026-11: 0.10.2, 0.12.0)."""
    from jax._src import core

    context, outside = core.trace_ctx, core.eval_trace
    if context.trace is not outside and not _tracing_public()():
        raise AttributeError("jax._src.core.trace_ctx means something else in this version")
    return lambda: context.trace is not outside


def _private(path: str) -> Any:
    """The object at a private path, such as ``jax._src.array:ArrayImpl``; None if JAX moved it."""
    module, _, name = path.partition(":")
    with contextlib.suppress(ImportError, AttributeError):
        return getattr(importlib.import_module(module), name)
    return None


def _private_or_public(private: Callable[[], Any], public: Callable[[], Any]) -> Any:
    try:
        return private()
    except (ImportError, AttributeError):
        return public()


tracing: Callable[[], bool] = _private_or_public(_tracing_private, _tracing_public)


def coordination() -> Any:
    """The client of JAX's coordination service; None in a job of one process, or if JAX moved it.

    Not public in 0.10.2 nor 0.12.0 (checked 2026-11): ``jax.distributed`` offers only
    ``initialize``, ``is_initialized`` and ``shutdown``. Callers fall back to
    ``jax.experimental.multihost_utils``, which has no timeout and does not say who is missing.
    """
    return getattr(_private("jax._src.distributed:global_state"), "client", None)


def place_in_job() -> tuple[int, int] | None:
    """This process' index and the number of processes, without starting any device.

    None before ``jax.distributed.initialize``, and if JAX moved it. Not public in 0.10.2 nor
    0.12.0 (checked 2026-11): ``jax.process_index()`` starts the devices, and so waits for the
    other processes. Callers fall back to it where devices are in use.
    """
    state = _private("jax._src.distributed:global_state")
    try:
        return None if state.client is None else (int(state.process_id), int(state.num_processes))
    except AttributeError:
        return None


def keep_gloo_on_loopback() -> None:
    """Let the CPU devices of a job that is on one machine connect over 127.0.0.1.

    By default gloo listens on the address of the host's name. Nothing public sets another one in
    0.10.2 nor 0.12.0 (checked 2026-11); if JAX moves this, the default stays. To be called before
    any device is used.
    """
    stock = _private("jaxlib._jax:make_gloo_tcp_collectives")
    if stock is not None:
        jaxlib: Any = importlib.import_module("jaxlib._jax")
        jaxlib.make_gloo_tcp_collectives = functools.partial(stock, hostname="127.0.0.1")


def view_type(array: jax.Array, shape: tuple[int, ...]) -> Any:
    """The abstract value, for `rewrap_as`, of a view of ``array`` with another shape."""
    return jax.core.ShapedArray(shape, array.dtype, weak_type=array.weak_type)


def _rewrap_public(array: jax.Array, aval: Any, sharding: jax.sharding.Sharding) -> jax.Array:
    """The buffers of ``array`` under another shape and sharding: 11 microseconds and more."""
    shards = [shard.data for shard in array.addressable_shards]
    return jax.make_array_from_single_device_arrays(aval.shape, sharding, shards)


# The same in a third of the time, as jax.pmap does it (2026-11: 0.10.2, 0.12.0). Done for every
# output of a pmapped call in a job of many processes.
_rewrap_private = getattr(
    _private("jax._src.array:ArrayImpl"), "_rewrap_with_aval_and_sharding", None
)
rewrap_as: Callable[[Any, Any, Any], jax.Array] = _rewrap_private or _rewrap_public


def rewrap(array: jax.Array, shape: tuple[int, ...], sharding: jax.sharding.Sharding) -> jax.Array:
    """The buffers of ``array``, or of this process' part of it, as an array of ``shape``."""
    return rewrap_as(array, view_type(array, shape), sharding)


Runner = Callable[[list[Any]], list[Any]]


def _context_private() -> Callable[[], Any]:
    """The settings, besides arguments, by which `jit` finds a program (2026-11: 0.10.2, 0.12.0)."""
    config = importlib.import_module("jax._src.config")
    traced, nans, infs = config.trace_context, config.debug_nans, config.debug_infs

    def context() -> Any:
        return None if nans.value or infs.value else traced()

    context()
    return context


# Without these names it is unknown, and no program is run without `jit`.
context: Callable[[], Any] = _private_or_public(_context_private, lambda: lambda: None)


def runner(compiled: jax.stages.Compiled, inputs: int) -> Runner | None:
    """A function that runs a compiled program on this process' buffers of its inputs.

    It takes and returns flat lists of arrays. Calling the program itself needs global arrays;
    one level below, only buffers count. ``_executable.unsafe_call`` and its attributes are not
    public (2026-11: 0.10.2, 0.12.0). None in a JAX without them, and for a program with effects:
    callers fall back to the public way, which converts the arrays.
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

    run.compiled = compiled  # type: ignore[attr-defined] # keeps it alive
    return run


def register_cache(cache: Any, for_what: str) -> None:
    """Let `jax.clear_caches` and `clear_backends` clear ``cache`` too.

    The public name is ``jax.extend.backend.register_backend_cache``, but ``jax.extend`` takes
    50 ms and more to import (2026-11, 0.12.0).
    """
    register = _private("jax._src.util:register_cache")
    if register is None:
        register = importlib.import_module("jax.extend.backend").register_backend_cache
    register(cache, for_what)


def scan_parts(eqn: Any) -> tuple[int, int] | None:
    """How many operands of a ``scan`` equation are constants, and how many are carried.

    The parameters hold numbers (0.10.2) or the tree of the operands (0.12.0); neither is public
    (2026-11). None if there is neither.
    """
    params = eqn.params
    if "num_consts" in params and "num_carry" in params:
        return params["num_consts"], params["num_carry"]
    try:
        consts, carry, xs = (len(list(part)) for part in params["ft_in"].unpack())
    except (KeyError, AttributeError, TypeError, ValueError):
        return None
    return (consts, carry) if consts + carry + xs == len(eqn.invars) else None


def inner_jaxprs(params: dict[str, Any]) -> Iterator[Any]:
    """The jaxprs among the parameters of an equation.

    Not by ``jax.extend.core.jaxprs_in_params``: importing ``jax.extend`` in the middle of a run
    makes JAX (0.12.0) trace every program of it once more.
    """
    for value in params.values():
        for item in value if isinstance(value, (tuple, list)) else (value,):
            jaxpr = getattr(item, "jaxpr", item)
            if hasattr(jaxpr, "eqns"):
                yield jaxpr


def equations(jaxpr: Any) -> Iterator[Any]:
    """Every equation of a jaxpr, each followed by the equations of the jaxprs that it holds."""
    for eqn in jaxpr.eqns:
        yield eqn
        for inner in inner_jaxprs(eqn.params):
            yield from equations(inner)


def collective_axes(eqn: Any) -> tuple[Hashable, ...]:
    """The names of the axes that a collective goes over; numbers are dimensions of its operand.

    Which parameter holds them is not public (2026-11: 0.10.2, 0.12.0).
    """
    axes = eqn.params["axes"] if "axes" in eqn.params else eqn.params["axis_name"]
    names = axes if isinstance(axes, (tuple, list)) else (axes,)
    return tuple(name for name in names if not isinstance(name, int))


def map_axes(eqn: Any) -> dict[Any, int] | None:
    """The axes that a ``shard_map`` equation maps over, and their sizes.

    Not public (2026-11: 0.10.2, 0.12.0). None if the equation does not have them.
    """
    mesh, names = eqn.params.get("mesh"), eqn.params.get("newly_manual_axes")
    if mesh is None or names is None:
        return None
    return {name: size for name, size in mesh.shape.items() if name in names}


def source_line(eqn: Any) -> tuple[str, int, str] | None:
    """File, line and function of the user's code behind an equation; None if JAX does not know.

    The innermost line outside installed packages, or else outside JAX. The frames are not public
    (2026-11: 0.10.2, 0.12.0); without them, the line is the one that JAX chooses. An equation of
    shardlift's own has no line.
    """
    chosen = _line_public(eqn)
    if chosen is None or chosen[0].startswith(_HERE):
        return None
    if is_own(chosen[0]):
        return chosen
    # Frames outside shardlift's own called the map: they are not the mapped function.
    body = itertools.takewhile(lambda line: not line[0].startswith(_HERE), lines_of(eqn))
    return next((line for line in body if is_own(line[0])), chosen)


_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def _line_public(eqn: Any) -> tuple[str, int, str] | None:
    """The innermost line outside JAX, from the text that ``jax.extend`` gives."""
    summarize = _private("jax.extend.source_info_util:summarize")
    try:
        text = summarize(eqn.source_info)
    except (TypeError, AttributeError):
        return None
    match = re.fullmatch(r"(.+?):(\d+)(?::\d+)?(?: \((.*)\))?", text)
    return (match[1], int(match[2]), match[3] or "") if match else None


def lines_of(eqn: Any) -> list[tuple[str, int, str]]:
    """File, line and function of every frame that led to an equation, the innermost first.

    Not public (2026-11: 0.10.2, 0.12.0); empty where there are none.
    """
    try:
        frames = eqn.source_info.traceback.frames
        return [(frame.file_name, frame.line_num, frame.function_name) for frame in frames]
    except AttributeError:
        return []


def made_by(eqn: Any, function: str) -> bool:
    """Whether a function of JAX made an equation: the division of a ``pmean``, for instance.

    The frames are not public (see `lines_of`); without them it is not known, and False.
    """
    return any(
        name == function and os.sep + "jax" + os.sep in file for file, _, name in lines_of(eqn)
    )


def transforms_of(equation: Any) -> str:
    """The transformations that created an equation: ``transpose(jvp())`` in a backward pass.

    Compiled programs have it as the name of an operation (2026-11: 0.10.2, 0.12.0). Empty where
    equations have none.
    """
    return str(getattr(getattr(equation, "source_info", None), "name_stack", ""))


def array_type() -> Any:
    """The type of arrays, if its ``__getitem__`` can be replaced; None if not.

    Not public (2026-11: 0.10.2, 0.12.0), and there is no public way: without it ``x[i]`` does
    what it does in JAX.
    """
    kind = _private("jax._src.array:ArrayImpl")
    is_python = kind is not None and isinstance(vars(kind).get("__getitem__"), types.FunctionType)
    return kind if is_python else None


def uncommit(array: Any) -> jax.Array:
    """An array on one device, so that it can be combined with arrays on any device.

    The same buffer without the mark that it is committed (2026-11: 0.10.2, 0.12.0), or else a copy
    that is made through the host.
    """
    try:
        return cast("jax.Array", type(array)(array.aval, array.sharding, [array], committed=False))
    except (TypeError, AttributeError):
        return jax.numpy.asarray(jax.device_get(array))


def option_makers() -> dict[str, Callable[..., Any]]:
    """What defines an option of ``jax.config``, by the name that its method had until 0.4.26.

    (2026-11: 0.10.2, 0.12.0.1; an empty dictionary where JAX has them no more.)
    """
    try:
        from jax._src import config
    except ImportError:
        return {}
    kinds = (
        "bool enum int float string optional_bool optional_enum optional_string string_or_object"
    )
    names = {f"define_{kind}_state": f"{kind}_state" for kind in kinds.split()}
    flags = {"bool": "bool", "integer": "int", "float": "float", "string": "string", "enum": "enum"}
    names |= {f"DEFINE_{kind}": f"{now}_flag" for kind, now in flags.items()}
    return {old: getattr(config, now) for old, now in names.items() if hasattr(config, now)}


def run_equation(eqn: Any, operands: list[Any]) -> list[Any]:
    """Run one equation of a jaxpr and return its outputs as a list, as ``eval_jaxpr`` does.

    ``get_bind_params`` and the equation's context are not documented (2026-11: 0.10.2, 0.12.0);
    without them the parameters are used unchanged.
    """
    primitive, params = eqn.primitive, eqn.params
    if hasattr(primitive, "get_bind_params"):
        params = primitive.get_bind_params(params)
    context = getattr(getattr(eqn, "ctx", None), "manager", None) or contextlib.nullcontext()
    with context:
        out = primitive.bind(*operands, **params)
    return list(out) if primitive.multiple_results else [out]
