"""One pmapped function: its plans, and the path that a call takes to one of them.

The hot path is one call of a jitted function. Everything else (first calls, other sizes, keyword
arguments, misplaced inputs, nested calls, errors) goes through `MappedFunction.call`.
"""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, TypeVar

import jax

from shardlift import _compat
from shardlift.mapping import divergence, errors, meshes, nesting
from shardlift.mapping.argument_placement import Fit, fit_leaves, rename_axes
from shardlift.mapping.axes import Call, argument_names, leaf_axes, mapped_size, shape_of
from shardlift.mapping.first_call import lay_out
from shardlift.mapping.labels import label_of
from shardlift.mapping.nested_call import call_inner
from shardlift.mapping.nesting import InnerAxes, NeedsInner
from shardlift.mapping.plan import Fun, NotHotError, Plan, make_plan, permit_trace
from shardlift.mapping.pmap_options import PmapOptions

T = TypeVar("T")
Arguments = tuple[tuple[Any, ...], dict[str, Any]]
MAX_PLANS = 64  # more sizes or devices than this, and a site forgets its programs
_SETTLE = 2
MAX_SIGNATURES = 256  # more shapes than this, and it forgets the nested axes of the oldest


def _no_program(*args: Any) -> Any:  # noqa: ARG001
    raise NotHotError


class MappedFunction:
    """A pmapped function: the options of its ``pmap``, and the programs built for it so far."""

    # Code that places arguments tells it: `fitted(site, plan, call, fit, seconds)`. Most calls do
    # not place any, and never look at it.
    observer: ClassVar[Any] = None

    def __init__(self, get_fun: Callable[[], Fun], name: str, options: PmapOptions) -> None:
        """``get_fun`` returns the function; the site need not keep it alive."""
        self.get_fun = get_fun
        self.name = name
        self.options = options
        self.hot: Callable[..., Any] = _no_program  # tried first by a call without keywords
        self._current: Plan | None = None  # of the last call that was checked, or is hot
        self._plans: dict[Any, Plan] = {}
        self._used: weakref.WeakSet[Plan] = weakref.WeakSet()  # plans that have run once
        self._inner: dict[Any, InnerAxes] = {}
        self._settling = 0  # calls like the last one until the hot path is tried again
        self._moves = False  # did the last call move inputs? Then the next one checks them first
        self._warned = False
        self._lock = threading.Lock()

    # ---- the call path

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call with every check."""
        with self._reporting_failures():
            call = self.take_apart(args, kwargs)
            frame = nesting.current_frame()
            if frame is not None or meshes.in_manual_context():
                return call_inner(self.get_fun(), self.options, call, frame)
            return self.with_plan(call, lambda plan: self._run(plan, call))

    def recover(self, error: BaseException, hot: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Run a call that the hot path could not serve, or raise what is wrong with it."""
        tried = self._current
        if (
            tried is not None
            and tried.called is hot  # or another thread has replaced it meanwhile
            and not isinstance(error, NotHotError)
            and not (_compat.tracing() or meshes.in_context_mesh())
        ):
            with self._reporting_failures():
                call = self.take_apart(args, {})
                if isinstance(error, NeedsInner):
                    self._learn(call, tried, error)
                elif self.with_plan(call, lambda plan: plan is tried):
                    with permit_trace():
                        return self._place_and_run(tried, call, error)
        return self.call(args, {})

    @contextlib.contextmanager
    def _reporting_failures(self) -> Iterator[None]:
        """Tell the other processes of a job about an error before it is raised."""
        try:
            yield
        except divergence.DivergenceError:
            raise
        except Exception as error:
            if self.options.devices is None or meshes.spans_processes(self.options.devices):
                divergence.report_failure(error)
            raise

    def _run(self, plan: Plan, call: Call) -> Any:
        if plan.bridge is not None and _compat.tracing():
            # Not at the top: it is rarely needed, and imports jax.extend, which is slow.
            from shardlift.mapping.processes.transformations import call_traced

            return call_traced(self.options, plan, call)
        if plan.inner or self._moves or meshes.in_context_mesh():
            placed = self._place(plan, call)
            self._moves = placed is not None
            args, kwargs = placed or (call.args, call.kwargs)
            with meshes.own_context(plan.mesh):
                return self._run_with_hints(plan, args, kwargs)
        try:
            ready = self._lay_out(plan, call)
            out = plan.called(*ready.args, **ready.kwargs)
        except Exception as error:
            return self._place_and_run(plan, call, error)
        changed, self._current = self._current not in (None, plan), plan
        if changed:  # on the hot path, a call of another size only fails when it is traced
            self.hot = _no_program
        if changed or ready.leaves is not call.leaves:
            self._settling = _SETTLE
        elif self._settling:
            self._settling -= 1
        elif not call.kwargs and not _compat.tracing():
            self.hot = plan.called
        return out

    def _lay_out(self, plan: Plan, call: Call) -> Call:
        """The call with arguments that jit knows; the first one, as they will come later."""
        if plan.bridge is not None or _compat.tracing() or _compat.jit_disabled():
            return call
        leaves = rename_axes(plan, call.leaves, call.axes)
        if leaves is not None:
            if self.observer is not None:
                self.observer.fitted(self, plan, call, Fit(leaves, moved=False), 0.0)
            self.hot = _no_program  # on the hot path, such arguments only show when it has failed
            args, kwargs = self._rebuild(call, leaves)
            call = call._replace(args=args, kwargs=kwargs, leaves=leaves)
        if plan in self._used:
            return call
        self._used.add(plan)
        args, kwargs = self._rebuild(call, lay_out(plan, call, self.donated(call)))
        return call._replace(args=args, kwargs=kwargs)

    def _place_and_run(self, plan: Plan, call: Call, error: BaseException) -> Any:
        """Place the arguments and run again, if the program failed because of their placement."""
        placed = self._place(plan, call) if errors.is_about_placement(error) else None
        if placed is None:
            errors.add_hint(error)
            raise error
        self._moves = True
        self.hot = _no_program
        return self._run_with_hints(plan, *placed)

    def _run_with_hints(self, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            return plan.called(*args, **kwargs)
        except Exception as error:
            errors.add_hint(error)
            raise

    def _place(self, plan: Plan, call: Call) -> Arguments | None:
        """The arguments, placed as the plan needs them; None if they already are."""
        policy = "silent" if self._warned else self.options.reshard
        free = [False] * len(call.leaves) if _compat.tracing() else self.donated(call)
        names = lambda: self.names(call)  # noqa: E731
        start = time.perf_counter()
        fit = fit_leaves(plan, self.name, call.leaves, call.axes, free, policy, names)
        if self.observer is not None:
            self.observer.fitted(self, plan, call, fit, time.perf_counter() - start)
        if fit.leaves is None:
            return None
        self._warned = self._warned or (fit.moved and policy == "warn")
        return self._rebuild(call, fit.leaves)

    def _rebuild(self, call: Call, leaves: list[Any] | None) -> Arguments:
        if leaves is None:
            return call.args, call.kwargs
        args, kwargs = jax.tree.unflatten(call.tree, leaves)
        return self.options.with_static(call.args, args), kwargs

    def donated(self, call: Call) -> list[bool]:
        """For each leaf of a call, whether it is donated."""
        flags: list[bool] = []
        for k, arg in enumerate(call.args):
            if k not in self.options.static:
                flags += [k in self.options.donate] * len(jax.tree.leaves(arg))
        return flags + [False] * (len(call.leaves) - len(flags))

    # ---- plans

    def take_apart(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """Flatten and check the arguments of a call."""
        dynamic = self.options.dynamic(args)
        for k in self.options.static:
            try:
                hash(args[k])
            except TypeError as error:
                name = argument_names(self.get_fun(), (0,), {}, [k])[0]
                raise ValueError(
                    f"Non-hashable static arguments are not supported: argument {name} of "
                    f"{self.name}, in static_broadcasted_argnums, is of type "
                    f"{type(args[k])} ({error}). Pass a hashable value, for example a tuple in "
                    "place of a list, or pass it as an array that is not static."
                ) from None
        leaves, tree = jax.tree.flatten((dynamic, kwargs))
        axes = leaf_axes(self.options, dynamic, kwargs)
        partial = Call(args, kwargs, leaves, tree, axes, 0)
        size = mapped_size(leaves, axes, lambda: self.names(partial))
        return partial._replace(size=self._check_size(size, partial))

    def _check_size(self, size: int | None, call: Call) -> int:
        given = self.options.axis_size
        if size is None:
            if given is None:
                raise ValueError(
                    "pmap requires at least one argument with a mapped axis: it must have at "
                    "least one non-None value in in_axes, and be passed at least one argument "
                    f"containing an array, or axis_size. Got {len(call.args)} positional and "
                    f"{len(call.kwargs)} keyword arguments with in_axes={self.options.in_axes}."
                )
            if self.options.view == "local":
                return given // jax.process_count(self.options.backend)
            return given
        if size == 0:
            raise ValueError("pmap was called with arguments of 0 rows: there is nothing to map.")
        return size

    def names(self, call: Call) -> Iterable[str]:
        """The name of each leaf of a call, for messages."""
        numbers = [k for k in range(len(call.args)) if k not in self.options.static]
        dynamic = tuple(call.args[k] for k in numbers)
        return argument_names(self.get_fun(), dynamic, call.kwargs, numbers)

    def with_plan(self, call: Call, use: Callable[[Plan], T]) -> T:
        """Call ``use`` with the call's plan; again with a larger mesh if there is a nested pmap."""
        while True:
            plan = self._plan(call)
            try:
                with permit_trace():
                    return use(plan)
            except NeedsInner as need:
                self._learn(call, plan, need)

    def _plan(self, call: Call) -> Plan:
        inner: InnerAxes = ()
        if self._inner and not _compat.jit_disabled():  # without jit inner pmaps are vmapped
            inner = self._inner.get(self._signature(call), ())
        local = meshes.given_local_devices(self.options)
        if local and not inner and call.size < len(local):
            inner = self._search_inner(call, local)
        layout = meshes.choose_layout(self.options, call.size, inner)
        key = (layout, inner)
        with self._lock:
            plan = self._plans.get(key)
            if plan is None:
                if len(self._plans) >= MAX_PLANS:
                    self._plans.clear()
                plan = self._plans[key] = self._make(layout, inner)
        return plan

    def _make(self, layout: meshes.DeviceRows, inner: InnerAxes) -> Plan:
        mesh = meshes.make_mesh(layout, label_of(self.options.axis_name), inner)
        return make_plan(self.get_fun, self.name, self.options, mesh, inner)

    def _search_inner(self, call: Call, devices: tuple[jax.Device, ...]) -> InnerAxes:
        """The nested axes, where ``pmap`` was given more devices than a call has rows."""
        plan = self._make(meshes.DeviceRows(devices[: call.size], call.size), ())
        try:
            with permit_trace():
                plan.program.eval_shape(*call.args, **call.kwargs)
        except NeedsInner as need:
            self._learn(call, plan, need)
        return self._inner.get(self._signature(call), ())

    def _learn(self, call: Call, plan: Plan, need: NeedsInner) -> None:
        signature = self._signature(call)
        with self._lock:
            # The oldest is dropped; tracing will find its axes again when they are needed.
            while len(self._inner) >= MAX_SIGNATURES and signature not in self._inner:
                del self._inner[next(iter(self._inner))]
            self._inner[signature] = (*plan.inner, need.axis)

    def _signature(self, call: Call) -> Any:
        """What decides which nested pmaps a call will run."""
        static = tuple(call.args[k] for k in self.options.static)
        shapes = tuple((shape_of(leaf), getattr(leaf, "dtype", type(leaf))) for leaf in call.leaves)
        return (call.tree, shapes, static)

    def clear(self) -> None:
        """Forget all programs."""
        with self._lock:
            self._plans.clear()
            self._inner.clear()
            self.hot, self._current = _no_program, None
