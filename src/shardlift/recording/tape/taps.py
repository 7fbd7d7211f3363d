"""The results of the collectives of a call, with one row per device.

The function is traced, and its jaxpr is run once more on the same inputs by an interpreter that
keeps the result of each collective that an output depends on. An optimiser that does not depend on
the scale of a gradient hides a wrong one from the outputs; here it shows. Every iteration of a
`scan` is kept.
"""

from __future__ import annotations

import hashlib
import linecache
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
from jax.sharding import PartitionSpec

from shardlift import _compat
from shardlift._replication.control_flow import CALLS, called_jaxpr
from shardlift.capture.schema import ArrayForm, ArrayRole
from shardlift.mapping.explanation import COLLECTIVES
from shardlift.recording.mapped_calls import MappedCall
from shardlift.recording.tape.host_arrays import HostArray, read_array
from shardlift.recording.tape.result_uses import ResultUses

EXCHANGES = frozenset(COLLECTIVES) - {"axis_index"}
CALLBACKS = ("debug_callback", "debug_print", "io_callback")
Outcome = tuple[list[Any], list[Any]]  # what a jaxpr returns, and the arrays kept
# Between the rows of one process and of all (`mapping.processes.transformations`): a compiled
# program cannot contain these.
CONVERSIONS = {"shardlift_to_global", "shardlift_to_local"}


class TracedProgram:
    """The program of a call, which is run once more to see the results of its collectives.

    ``name`` is the same for programs that are written alike.
    """

    def __init__(self, mapped: Any, call: MappedCall) -> None:
        def run(leaves: list[Any]) -> Any:
            args, kwargs = call.rebuild(leaves)
            return mapped(*args, **kwargs)

        self._traced = jax.make_jaxpr(run)(call.leaves)
        text = re.sub(r"0x[0-9a-f]+", "", str(self._traced.jaxpr))
        self.name = hashlib.sha256(text.encode()).hexdigest()
        self._walk = Walk()

    def look(self, call: MappedCall) -> tuple[list[HostArray], str]:
        """The results of the collectives of one call, and why some are missing, if any are."""
        jaxpr, walk = self._traced.jaxpr, self._walk
        if not exchanges(jaxpr):  # the outputs tell
            return [], ""
        if any(calls_back(eqn) and not is_silent(eqn) for eqn in _compat.equations(jaxpr)):
            return [], "the function calls back to the host, and is not run once more"
        arrays = walk.run_whole(jaxpr, self._traced.consts, jax.tree.leaves(call.leaves))
        hosts = [_read(form, array) for form, array in zip(walk.about, arrays, strict=True)]
        inside = ", ".join(sorted(walk.unseen))
        return hosts, f"those inside of {inside} are not followed" if inside else ""


def _read(form: ArrayForm, array: Any) -> HostArray:
    host = read_array(form.path, array, 0)
    read = host.form
    return host._replace(
        form=replace(form, dtype=read.dtype, shape=read.shape, axis=read.axis, agree=read.agree)
    )


def exchanges(jaxpr: Any) -> bool:
    """Is a collective anywhere inside?"""
    return any(eqn.primitive.name in EXCHANGES for eqn in _compat.equations(jaxpr))


def is_silent(eqn: Any) -> bool:
    """Does an equation only call back to the host? It would do it once more, and is left out."""
    return eqn.primitive.name in CALLBACKS and not eqn.outvars


def calls_back(eqn: Any) -> bool:
    """Does an equation call back to the host, and may do more there than compute?"""
    kind = eqn.primitive.name
    return kind in CALLBACKS or ("callback" in kind and kind != "pure_callback")


class Walk:
    """Runs jaxprs, keeping what is exchanged. ``about``: what each array kept is, without type."""

    def __init__(self) -> None:
        self.about: list[ArrayForm] = []
        self.unseen: set[str] = set()
        self.uses = ResultUses()  # of the results of the jaxpr that is run
        self._compiled: Any = None  # the jaxpr of a call

    def run_whole(self, jaxpr: Any, consts: Sequence[Any], args: Sequence[Any]) -> list[Any]:
        """Run the jaxpr of a call, as one program if it can be one. Returns the arrays kept."""
        if any(eqn.primitive.name in CONVERSIONS for eqn in jaxpr.eqns):
            return self._run_in_pieces(jaxpr, consts, args)

        def run(consts: Sequence[Any], args: Sequence[Any]) -> list[Any]:
            self.about.clear()
            return self.body(jaxpr, consts, args)[1]

        if self._compiled is None:
            self._compiled = jax.jit(run)
        kept: list[Any] = self._compiled(consts, args)
        return kept

    def _run_in_pieces(self, jaxpr: Any, consts: Sequence[Any], args: Sequence[Any]) -> list[Any]:
        """Run the call of a host-local pmap in a job of many processes, equation by equation."""
        self.about.clear()
        names = dict(zip(jaxpr.constvars, consts, strict=False))
        names.update(zip(jaxpr.invars, args, strict=True))
        kept: list[Any] = []
        for eqn in jaxpr.eqns:
            operands = _values(names, eqn.invars)
            if any(map(exchanges, _compat.inner_jaxprs(eqn.params))):
                before = len(self.about)

                def run(operands: list[Any], eqn: Any = eqn, before: int = before) -> Outcome:
                    del self.about[before:]  # traced more than once
                    return self._run(eqn, operands, "")

                outputs, new = jax.jit(run)(operands)
                kept += new
            else:
                outputs = _compat.run_equation(eqn, operands)
            names.update(zip(eqn.outvars, outputs, strict=True))
        return kept

    def body(
        self, jaxpr: Any, consts: Sequence[Any], args: Sequence[Any], around: str = ""
    ) -> Outcome:
        """Outputs of the jaxpr of a map or a loop, and the arrays kept."""
        outer, self.uses = self.uses, ResultUses()
        outputs, kept = self.inside(jaxpr, consts, args, around)
        self.uses.give(outputs, "returned")
        for number, uses, factors in self.uses.finish():
            result = self.about[number] = replace(self.about[number], uses=uses)
            if factors is not None:
                role = ArrayRole.FACTORS
                path = result.path.removesuffix(result.role) + role
                self.about.append(replace(result, path=path, role=role))
                kept = [*kept, factors]
        self.uses = outer
        return outputs, kept

    def inside(
        self, jaxpr: Any, consts: Sequence[Any], args: Sequence[Any], around: str = ""
    ) -> Outcome:
        """Outputs of the jaxpr, and the arrays kept."""
        names = dict(zip(jaxpr.constvars, consts, strict=False))
        names.update(zip(jaxpr.invars, args, strict=True))
        kept: list[Any] = []
        for eqn in _living_equations(jaxpr):
            operands = _values(names, eqn.invars)
            outputs, new = self._run(eqn, operands, around)
            kept += new
            names.update(zip(eqn.outvars, outputs, strict=True))
            if eqn.primitive.name in EXCHANGES:
                for result in outputs:
                    self._note(eqn, around)
                    kept.append(result)
                    self.uses.start(len(self.about) - 1, result)
        return _values(names, jaxpr.outvars), kept

    def _run(self, eqn: Any, operands: list[Any], around: str) -> Outcome:
        kind = eqn.primitive.name
        around = f"{around}/{_compat.transforms_of(eqn)}"
        follow = {"shard_map": self._map, "scan": self._scan}.get(kind)
        inner = called_jaxpr(eqn) if kind in (*CALLS, "checkpoint", "remat") else None
        is_telling = any(map(exchanges, _compat.inner_jaxprs(eqn.params)))
        if inner is not None and (is_telling or self.uses.any_of(operands)):
            consts = (p.consts for p in eqn.params.values() if hasattr(p, "consts"))
            return self.inside(inner, next(consts, ()), operands, around)
        if is_telling and follow is not None and (kind != "scan" or _compat.scan_parts(eqn)):
            self.uses.give(operands, kind)
            return follow(eqn, operands, around)
        if is_telling:
            self.unseen.add(kind)
        outputs = _compat.run_equation(eqn, operands)
        self.uses.follow(eqn, operands, outputs)
        return outputs, []

    def _note(self, eqn: Any, around: str) -> None:
        """Note what the result of a collective is: ``psum #1, result``, counted on its line."""
        backward = "transpose(" in f"{around}/{_compat.transforms_of(eqn)}"
        collective = eqn.primitive.name.removesuffix("_invariant")
        line = _compat.source_line(eqn)
        text = linecache.getline(line[0], line[1]).strip() if line else ""
        kind = (ArrayRole.RESULT, collective, backward, text)
        number = 1 + sum((x.role, x.collective, x.backward, x.about) == kind for x in self.about)
        path = f"{collective}{' (backward pass)' * backward} #{number}, {ArrayRole.RESULT}"
        self.about.append(ArrayForm(path, "", (), None, True, text, *kind[:3]))

    def _map(self, eqn: Any, operands: list[Any], around: str) -> Outcome:
        params = eqn.params
        axes = tuple(_compat.map_axes(eqn) or {})

        def body(blocks: list[Any]) -> Any:
            outputs, kept = self.body(params["jaxpr"], (), blocks, around)
            return outputs, [jax.lax.expand_dims(array, [0]) for array in kept]

        mapped = jax.shard_map(
            body,
            mesh=params["mesh"],
            in_specs=(list(params["in_specs"]),),
            out_specs=(list(params["out_specs"]), PartitionSpec(axes)),
            axis_names=set(axes),
            check_vma=params["check_vma"],
        )
        outputs, kept = mapped(operands)
        return list(outputs), list(kept)

    def _scan(self, eqn: Any, operands: list[Any], around: str) -> Outcome:
        closed, params = eqn.params["jaxpr"], eqn.params
        fixed, carried = _compat.scan_parts(eqn) or (0, 0)
        consts, xs = operands[:fixed], operands[fixed + carried :]
        before = len(self.about)

        def turn(carry: list[Any], x: list[Any]) -> Any:
            del self.about[before:]  # traced more than once
            jaxpr, own = getattr(closed, "jaxpr", closed), getattr(closed, "consts", ())
            outputs, kept = self.body(jaxpr, own, [*consts, *carry, *x], around)
            return outputs[:carried], (outputs[carried:], kept)

        start = operands[fixed : fixed + carried]
        carry, (ys, kept) = jax.lax.scan(
            turn, start, xs, length=params["length"], reverse=params["reverse"]
        )
        return [*carry, *ys], list(kept)


def _values(names: Mapping[Any, Any], variables: Sequence[Any]) -> list[Any]:
    """What variables and literals stand for."""
    return [names[v] if not hasattr(v, "val") else v.val for v in variables]


def _living_equations(jaxpr: Any) -> list[Any]:
    """The equations that the outputs of a jaxpr depend on, or that act on something else."""
    alive: list[Any] = []
    needed = _variables(jaxpr.outvars)
    for eqn in reversed(jaxpr.eqns):
        if not needed.isdisjoint(eqn.outvars) or _acts(eqn):
            alive.append(eqn)
            needed |= _variables(eqn.invars)
    return alive[::-1]


def _variables(atoms: Sequence[Any]) -> set[Any]:
    """Those that are no literals."""
    return {atom for atom in atoms if not hasattr(atom, "val")}


def _acts(eqn: Any) -> bool:
    """Whether an equation does something besides computing its outputs; to print is nothing."""
    names = {type(effect).__name__ for effect in eqn.effects}
    return not is_silent(eqn) and not names <= {"DebugEffect", "NamedAxisEffect"}
