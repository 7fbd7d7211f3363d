"""Lowering, tracing and shape evaluation with the caller's own arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from shardlift.mapping.axes import prefix_leaves, spec_of
from shardlift.mapping.plan import Plan, make_plan
from shardlift.mapping.processes.bridge import Bridge
from shardlift.mapping.site import MappedFunction

Args = tuple[Any, ...]
Kwargs = dict[str, Any]


def lower(site: MappedFunction, args: Args, kwargs: Kwargs) -> Any:
    """Lower the program; in a job of many processes its compiled form converts arrays too."""
    lowered, plan = use_program(site, args, kwargs, lambda program, a, k: program.lower(*a, **k))
    return lowered if plan.bridge is None else LocalStage(lowered, plan.bridge)


def trace(site: MappedFunction, args: Args, kwargs: Kwargs) -> Any:
    """Trace the program.

    ``jax.make_jaxpr`` calls this too, and may evaluate the result with the caller's own
    arguments: in a job of many processes it therefore includes the conversions.
    """
    plan = site.with_plan(site.take_apart(args, kwargs), lambda plan: plan)
    if plan.bridge is None:
        return use_program(site, args, kwargs, lambda program, a, k: program.trace(*a, **k))[0]

    local = jax.jit(lambda *a, **k: site.call(a, k), static_argnums=site.options.static)
    return local.trace(*args, **kwargs)


def eval_shape(site: MappedFunction, args: Args, kwargs: Kwargs) -> Any:
    """Shapes and dtypes of the outputs, as the caller sees them."""
    out, plan = use_program(site, args, kwargs, lambda program, a, k: program.eval_shape(*a, **k))
    if plan.bridge is None:
        return out
    axes = prefix_leaves(site.options.out_axes, out, "out_axes")
    leaves, tree = jax.tree.flatten(out)
    local = [
        leaf.update(shape=plan.bridge.local_shape(leaf.shape, spec_of(axis, plan.label)))
        for leaf, axis in zip(leaves, axes, strict=True)
    ]
    return jax.tree.unflatten(tree, local)


def as_shard_map(site: MappedFunction, args: Args, kwargs: Kwargs) -> Any:
    """The plain jitted ``shard_map`` that a call runs; it keeps the function alive by itself.

    In a job of many processes it takes and returns global arrays.
    """
    fun = site.get_fun()
    _, plan = use_program(site, args, kwargs, lambda program, a, k: program.eval_shape(*a, **k))
    return make_plan(lambda: fun, site.name, site.options, plan.mesh, plan.inner, free=True).ahead


def use_program(
    site: MappedFunction, args: Args, kwargs: Kwargs, use: Callable[[Any, Args, Kwargs], Any]
) -> tuple[Any, Plan]:
    """Call ``use`` with the program of a call and the arguments it takes; also return the plan."""

    def run(plan: Plan) -> tuple[Any, Plan]:
        if plan.bridge is None:
            return use(plan.ahead, args, kwargs), plan
        global_args, global_kwargs = plan.bridge.abstract(site.options.dynamic(args), kwargs)
        return use(plan.ahead, site.options.with_static(args, global_args), global_kwargs), plan

    return site.with_plan(site.take_apart(args, kwargs), run)


class LocalStage:
    """A lowered or compiled program of many processes; called, it takes the rows of this one."""

    def __init__(self, stage: Any, bridge: Bridge) -> None:
        self._stage = stage
        self._bridge = bridge

    def compile(self, *args: Any, **kwargs: Any) -> LocalStage:
        """Compile for the devices of all processes."""
        return LocalStage(self._stage.compile(*args, **kwargs), self._bridge)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run; the arguments are those given to ``lower``, without the static ones."""
        global_args, global_kwargs = self._bridge.globals_of(args, kwargs)
        out = self._stage(*global_args, **global_kwargs)
        return jax.tree.map(self._bridge.to_local, out)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stage, name)
