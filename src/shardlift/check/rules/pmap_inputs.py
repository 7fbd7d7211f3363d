"""What pmapped functions are called with, and by whom."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.guards import guards
from shardlift.source.idioms import device_count, innermost_expression, stacking_count
from shardlift.source.model import GUIDE, MULTI_PROCESS, Level, Match, Rule
from shardlift.source.shard_maps import placed_spec, placement
from shardlift.source.values import Constant, Mapped

_DEVICES = frozenset({"jax.devices", "jax.local_devices"})


def _misplaced_input(file: File) -> Iterator[Match]:
    """Arguments that `jax.device_put` placed on one device, or whole on every device."""
    for call, mapped in file.mapped_calls:
        if not _maps_axis_zero(mapped):
            continue
        for argument in call.args:
            where = _placed(file, argument)
            if where:
                yield Match(argument, f"a mapped input is placed {where}: pmap raises an error")


def _maps_axis_zero(mapped: Mapped) -> bool:
    if mapped.keywords.keys() & {"devices", "backend"}:  # as the guide says, for such inputs
        return False
    located = mapped.keywords.get("in_axes")
    if located is None:
        return "static_broadcasted_argnums" not in mapped.keywords
    value = located.file.only(located.node)
    return isinstance(value, Constant) and value.value == 0


def _placed(file: File, node: ast.expr) -> str | None:
    where, place = placement(file, node) or (file, None)
    if isinstance(place, ast.Subscript) and isinstance(place.slice, ast.Constant):
        return "on one device" if where.called(place.value) in _DEVICES else None
    return "whole on every device" if placed_spec(file, node) == () else None


def _device_axis_by_hand(file: File) -> Iterator[Match]:
    """Reshapes by the device count whose result is passed to pmap, and flax's `shard`."""
    seen: set[ast.expr] = set()
    for call, _ in file.mapped_calls:
        for argument in call.args:
            made = file.definition(argument)
            where, inner = innermost_expression(file, made)
            reshaped = _is_reshape(where, inner) and stacking_count(where, inner) is not None
            if made not in seen and reshaped:
                seen.add(made)
                yield Match(made, "a reshape adds a device axis for pmap")
    for call in file.index.nodes(ast.Call):
        if file.called(call) == "flax.training.common_utils.shard":
            yield Match(call, "shard() adds a device axis for pmap")


def _is_reshape(file: File, node: ast.expr) -> bool:
    return "reshape" in file.text(node) and file.called(node) != "jax.random.split"


def _donated_after_reshard(file: File) -> Iterator[Match]:
    """Donated arguments that are stacked or reshaped in the call."""
    for call, mapped in file.mapped_calls:
        for place in donated(mapped):
            if place < len(call.args) and stacking_count(file, call.args[place]) is not None:
                text = f"argument {place} is donated, but must be resharded first"
                yield Match(call.args[place], text)


def donated(mapped: Mapped) -> tuple[int, ...]:
    """The positions that a pmapped function donates, as far as they are literals."""
    located = mapped.keywords.get("donate_argnums")
    if located is None:
        return ()
    node = located.file.definition(located.node)
    elements = node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node]
    values = [located.file.only(element) for element in elements]
    return tuple(v.value for v in values if isinstance(v, Constant) and isinstance(v.value, int))


def _global_device_count(file: File) -> Iterator[Match]:
    """Inputs of pmapped functions that are reshaped, split or stacked by the global count."""
    if not file.many_processes:
        return
    seen: set[ast.expr] = set()
    for call, mapped in file.mapped_calls:
        if "devices" in mapped.keywords:
            continue
        for argument in call.args:
            count = stacking_count(file, argument)
            if count is not None and count not in seen and device_count(file, count) == "global":
                seen.add(count)
                yield Match(count, "pmap needs one row per local device, not per device of the job")


_INDEX = frozenset({"jax.process_index", "jax.host_id"})


def _one_process_only(file: File) -> Iterator[Match]:
    """Calls of pmapped functions under `if jax.process_index() == 0`."""
    for call, mapped in file.mapped_calls:
        if "devices" in mapped.keywords or "backend" in mapped.keywords:
            continue
        for node, branch in guards(file.index, call):
            if isinstance(node, ast.If) and branch == "body" and _is_one_process(file, node.test):
                yield Match(call, "only one process makes this call: it waits for the others")
                break


def _is_one_process(file: File, test: ast.expr) -> bool:
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return any(_is_one_process(file, value) for value in test.values)
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Eq):
        return False
    return file.called(file.definition(test.left)) in _INDEX


RULES = (
    Rule(
        code="SL303",
        level=Level.BROKEN,
        summary="an input of a pmapped function has the wrong placement",
        advice="Place it with NamedSharding(mesh, P('axis')), or use in_axes=None.",
        reference=f"{GUIDE}#valueerror-received-incompatible-devices",
        words=("pmap",),
        since=(0, 8),
        visit=_misplaced_input,
    ),
    Rule(
        code="SL304",
        level=Level.NOTE,
        summary="a batch gets a leading device axis",
        advice="With shard_map, keep the batch flat: P('axis') splits its first axis.",
        reference=f"{GUIDE}#input-data-preparation",
        words=("pmap", "common_utils"),
        visit=_device_axis_by_hand,
    ),
    Rule(
        code="SL305",
        level=Level.SLOW,
        summary="a donated input is resharded first, which needs twice the memory",
        advice="Place it once before the loop, with the sharding of the step.",
        reference=f"{GUIDE}#buffer-donation-with-donate-argnums",
        words=("pmap",),
        since=(0, 8),
        visit=_donated_after_reshard,
    ),
    Rule(
        code="SL604",
        level=Level.BROKEN,
        summary="a leading axis of all devices in a program of many processes",
        advice="Use jax.local_device_count().",
        reference=MULTI_PROCESS,
        words=("pmap",),
        visit=_global_device_count,
    ),
    Rule(
        code="SL606",
        level=Level.BROKEN,
        summary="a pmapped function is called by one process only",
        advice="Call it in every process; keep the condition for the code that uses the result.",
        reference=MULTI_PROCESS,
        words=("pmap",),
        visit=_one_process_only,
    ),
)
