"""``python -m tests.fuzz.verify [--pairs 1000] [--seed 0]``: pairs of programs for `verify`.

A random training program in pmap is moved to shard_map, rightly, with one harmless change, or
with one planted mistake. `verify` must call the first two the same, and none of the third.
The programs run in this process: recording and comparing are those of the command.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from tests.fuzz import quick_jax

if __name__ == "__main__":
    quick_jax.set_up(devices=8)

import jax

from shardlift.verify.compare.captured_run import CapturedRun
from shardlift.verify.compare.judge import judge
from shardlift.verify.compare.verdicts import ProgramVerdict, Side
from tests.verify.recording import before, program, taped

OPTIMISERS = {"sgd": "g", "sign": "jnp.sign(g)", "norm": "g / jnp.sqrt(jnp.sum(g * g) + 1e-9)"}


@dataclass(frozen=True)
class Case:
    """A program: what its step does, line by line, and how the step is called."""

    seed: int
    batch: int
    features: int
    steps: int
    lines: dict[str, str]
    outputs: dict[str, str]
    layout: str = "pmap"  # or "rows", "global"
    axis: str = "i"
    rows: str = "XS[k]"
    keys: str = "KEYS[k]"
    fed_back: str = "w"
    calls: str = "range(STEPS)"
    top: str = ""  # of the module
    extra: str = ""  # a further argument
    made: str = "f = MAPPED"
    call: str = "f"
    varying: frozenset[str] = field(default_factory=lambda: frozenset({"h", "s", "ring"}))

    def text(self) -> str:
        """The program."""
        body = "\n".join(f"    {line}" for line in self.lines.values())
        out = ", ".join(f'"{name}": {value}' for name, value in self.outputs.items())
        extra, given = (", extra=None", ", None") if self.extra else ("", "")
        flat = ".reshape(-1, D)" if self.layout == "global" else ""
        state = "W" if self.layout == "global" else "np.stack([W] * 8)"
        return f"""
STEPS, B, D = {self.steps}, {self.batch}, {self.features}
rng = np.random.default_rng({self.seed})
W = rng.normal(size=D).astype("f4")
XS = rng.normal(size=(STEPS, 8, B, D)).astype("f4")
KEYS = [jax.random.split(jax.random.key(k + {self.seed}), 8) for k in range(STEPS)]
{self.top}
def step(w, x, key{extra}):
{body}
    return w, {{{out}}}
{self.made.replace("MAPPED", self._mapped())}
w0 = w = {state}
for k in {self.calls}:
    w, out = {self.call}({self.fed_back}, ({self.rows}){flat}, {self.keys}{given})
""".replace('"i"', f'"{self.axis}"')

    def _mapped(self) -> str:
        if self.layout == "pmap":
            return 'jax.pmap(step, axis_name="i")'
        if self.layout == "rows":
            return f'on_rows(step, "{self.axis}")'
        specs = ", ".join(
            f'"{name}": P({chr(34) + "i" + chr(34) if value in self.varying else ""})'
            for name, value in self.outputs.items()
        )
        given = ', P("i"), P("i")' + ", P()" * bool(self.extra)
        return f"""jax.jit(jax.shard_map(
    functools.wraps(step)(lambda w, x, key, *rest: step(w, x, key[0], *rest)),
    mesh=Mesh(np.array(jax.devices()), ("i",)), in_specs=(P(){given}),
    out_specs=(P(), {{{specs}}}), check_vma=False))"""


def right_program(rng: random.Random) -> Case:
    """A random program in pmap."""
    lines = {}
    if rng.random() < 0.5:
        lines["noise"] = "x = x + 0.1 * jax.random.normal(key, x.shape)"
    if rng.random() < 0.5:
        lines["index"] = 'x = x * (1 + 0.1 * lax.axis_index("i").astype(x.dtype))'
    lines["centre"] = "s = x - 0.5 * x.mean(0)"
    lines["hidden"] = rng.choice(["h = jnp.tanh(s @ w)", "h = jnp.sin(s @ w) + 1"])
    loss = rng.choice(["(jnp.tanh(s @ w) - 1) ** 2", "jnp.cosh(0.3 * (s @ w))"])
    lines["grads"] = f"g = jax.grad(lambda w: jnp.mean({loss}))(w)"
    lines["mean"] = 'g = lax.pmean(g, "i")'
    outputs = {"hidden": "h"}
    metrics = {
        "loss": 'loss = lax.pmean(jnp.mean(h ** 2), "i")',
        "total": 'total = lax.psum(jnp.sum(h), "i")',
        "top": 'top = lax.pmax(jnp.max(h), "i")',
        "low": 'low = lax.pmin(jnp.min(h), "i")',
        "ring": 'ring = lax.ppermute(h, "i", [(k, (k + 1) % 8) for k in range(8)])',
        "every": 'every = lax.all_gather(h, "i", tiled=True)',
        "turned": 'turned = lax.pmean(jnp.sum(h) * (1 + 2j), "i")',
        "count": 'count = lax.psum(jnp.sum((h > 0.1).astype(jnp.int32)), "i")',
        "edges": "edges = jnp.array([-0.0, jnp.nan, jnp.inf]) * jnp.sign(jnp.sum(h * h) + 1)",
        "loop": "loop = lax.while_loop(lambda c: c[0] < 3, "
        'lambda c: (c[0] + 1, c[1] + lax.pmean(jnp.sum(h), "i")), (0, jnp.float32(0)))[1]',
        "branch": 'branch = lax.cond(lax.pmax(jnp.max(h), "i") > -9, '
        'lambda t: lax.pmean(t, "i"), lambda t: t, jnp.sum(h))',
        "turns": 'turns = lax.scan(lambda c, v: (0.5 * c + lax.pmean(v, "i"), None), 0 * w, x)[0]',
    }
    for name in rng.sample(sorted(metrics), rng.randint(1, 3)):
        lines[name] = metrics[name]
        outputs[name] = name
    lines["update"] = f"w = w - 0.1 * {OPTIMISERS[rng.choice(sorted(OPTIMISERS))]}"
    sizes = {"batch": rng.randint(1, 3), "features": rng.randint(2, 4), "steps": rng.randint(1, 4)}
    return Case(seed=rng.randrange(1000), lines=lines, outputs=outputs, **sizes)


def moved(case: Case, rng: random.Random) -> Case:
    """The same program in shard_map."""
    return replace(case, layout=rng.choice(["rows", "global"]))


def changed(case: Case, name: str, old: str, new: str) -> Case | None:
    """The case with another text in one of its lines; None if it is not there."""
    line = case.lines.get(name, "")
    if old not in line:
        return None
    return replace(case, lines={**case.lines, name: line.replace(old, new)})


Change = Callable[[Case, random.Random], "Case | None"]


def in_line(name: str, old: str, new: str) -> Change:
    """A change of the text of one line."""
    return lambda case, _: changed(case, name, old, new)


def of_case(**fields: str) -> Change:
    """A change of how the step is called."""
    return lambda case, _: replace(case, **fields)  # type: ignore[arg-type]


# ---- mistakes


def _swapped(case: Case, _: random.Random) -> Case | None:
    names = [name for name, value in case.outputs.items() if value in ("loss", "total", "top")]
    if len(names) < 2:
        return None
    first, second = names[:2]
    outputs = {**case.outputs, first: case.outputs[second], second: case.outputs[first]}
    return replace(case, outputs=outputs)


def _late(case: Case, _: random.Random) -> Case:
    return replace(case, rows="XS[k] * np.float32(1.01 if k == STEPS - 1 else 1)")


def _later_only(change: Change) -> Change:
    """A change that shows from the second step on."""
    return lambda case, rng: change(case, rng) if case.steps > 1 else None


MISTAKES: dict[str, Change] = {
    "scale: gradient": in_line("grads", "jnp.mean(", "8 * jnp.mean("),
    "scale: step": in_line("update", "0.1", "0.2"),
    "axis: mean": in_line("centre", "x.mean(0)", "x.mean(1, keepdims=True)"),
    "axis: index": in_line("index", "1 + 0.1", "1.1 + 0.1"),
    "reduction: gradient": in_line("mean", "pmean", "psum"),
    "reduction: loss": in_line("loss", "pmean", "psum"),
    "reduction: total": in_line("total", "psum", "pmean"),
    "reduction: top": in_line("top", "pmax", "pmin"),
    "reduction: lowest": in_line("low", "pmin", "pmax"),
    "reduction: complex": in_line("turned", "pmean", "psum"),
    "reduction: while": in_line("loop", "pmean", "psum"),
    "reduction: branch": in_line("branch", "lax.pmean(t", "lax.psum(t"),
    "order: ring": in_line("ring", "k + 1", "k + 3"),
    "scale: gathered": in_line("every", "(h,", "(1.001 * h,"),
    "scale: complex": in_line("turned", "2j", "3j"),
    "dtype: integers": in_line("count", "jnp.int32", "jnp.float32"),
    "bits: sign of zero": in_line("edges", "-0.0", "0.0"),
    "bits: NaN": in_line("edges", "jnp.nan", "1.0"),
    "reduction: scan": in_line("turns", "pmean", "psum"),
    "missing collective: gradient": in_line("mean", 'lax.pmean(g, "i")', "g"),
    "missing collective: loss": in_line(
        "loss", 'lax.pmean(jnp.mean(h ** 2), "i")', "jnp.mean(h ** 2)"
    ),
    "order: rows": of_case(rows="XS[k][::-1]"),
    "key: one for all": lambda case, _: (
        replace(case, keys="jnp.stack([KEYS[k][0]] * 8)") if "noise" in case.lines else None
    ),
    "key: the same again": _later_only(
        lambda case, _: replace(case, keys="KEYS[0]") if "noise" in case.lines else None
    ),
    "dtype: output": lambda case, _: replace(
        case, outputs={**case.outputs, "hidden": "h.astype(jnp.bfloat16)"}
    ),
    "dtype: rounding": in_line("centre", "s = x", "s = x.astype(jnp.bfloat16).astype(x.dtype)"),
    "dtype: gradient": in_line(
        "mean", 'lax.pmean(g, "i")', 'lax.pmean(g.astype(jnp.bfloat16), "i").astype(g.dtype)'
    ),
    "copy: first device": lambda case, _: replace(
        case, outputs={**case.outputs, "hidden": 'lax.all_gather(h, "i")[0]'}
    ),
    "copy: shape": lambda case, _: replace(case, outputs={**case.outputs, "hidden": "h[None]"}),
    "late difference": _late,
    "host: not fed back": _later_only(of_case(fed_back="w0")),
    "host: fewer calls": _later_only(of_case(calls="range(STEPS - 1)")),
    "host: more calls": of_case(calls="[*range(STEPS), 0]"),
    "output: swapped": _swapped,
    "output: missing": lambda case, _: replace(
        case, outputs={k: v for k, v in case.outputs.items() if k != "hidden"}
    ),
}


# ---- harmless changes


def _commented(case: Case, rng: random.Random) -> Case:
    lines = {name: f"{line}  # {rng.random()}" for name, line in case.lines.items()}
    return replace(case, lines=lines)


def _split(case: Case, _: random.Random) -> Case:
    """As black splits a line."""
    lines = {
        name: line.replace("(", "(\n        ", 1) if "(" in line else line
        for name, line in case.lines.items()
    }
    return replace(case, lines=lines)


def _renamed(case: Case, _: random.Random) -> Case:
    lines = {name: re.sub(r"\bg\b", "grads", line) for name, line in case.lines.items()}
    return replace(case, lines=lines)


def _helper(case: Case, _: random.Random) -> Case | None:
    top = 'def average(tree):\n    return lax.pmean(tree, "i")\n'
    other = changed(case, "mean", 'lax.pmean(g, "i")', "average(g)")
    return other and replace(other, top=top)


def _reordered(case: Case, rng: random.Random) -> Case:
    wanted = ("mean", "loss", "total", "top", "turns", "low", "every", "turned", "loop")
    names = [name for name in wanted if name in case.lines]
    rest = [name for name in case.lines if name not in (*names, "update")]
    rng.shuffle(names)
    return replace(case, lines={n: case.lines[n] for n in (*rest, *names, "update")})


def _renamed_output(case: Case, _: random.Random) -> Case:
    outputs = {"z_" + k if k == "hidden" else k: v for k, v in case.outputs.items()}
    return replace(case, outputs=outputs)


HARMLESS: dict[str, Change] = {
    "moved": lambda case, _: case,
    "comment": _commented,
    "formatting": _split,
    "renaming: variable": _renamed,
    "renaming: axis": of_case(axis="devices"),
    "renaming: output": _renamed_output,
    "splitting a function": _helper,
    "order of lines": _reordered,
    "argument": of_case(extra="extra"),
    "two sites": of_case(
        made="def make():\n    return MAPPED\nfs = [make(), make()]", call="fs[k % 2]"
    ),
    "psum and division": in_line("mean", 'lax.pmean(g, "i")', 'lax.psum(g, "i") / 8'),
    "another name of a function": in_line("loss", "jnp.mean(h ** 2)", "(h * h).mean()"),
}


# ---- pairs


@dataclass(frozen=True)
class Pair:
    """A pair of programs."""

    name: str
    harmless: bool
    old: Case
    new: Case

    def wrong(self, recorded: CapturedRun) -> str:
        """What `verify` says, if that is wrong; ``recorded`` is the program before."""
        after = taped(program(self.new.text()), reference=recorded)
        sites = tuple(judge(recorded, after))
        status = ProgramVerdict(Side("before"), Side("after"), sites).status
        said = ", ".join(f"{site.name} {site.verdict}" for site in sites)
        return "" if (status == 0) == self.harmless else said or "nothing"


def pairs_of(seed: int) -> Iterator[Pair]:
    """All pairs of one program."""
    rng = random.Random(seed)
    old = right_program(rng)
    for harmless, changes in ((True, HARMLESS), (False, MISTAKES)):
        for name, change in changes.items():
            new = change(moved(old, rng), rng)
            if new is not None:
                yield Pair(name, harmless, old, new)


def main() -> int:
    """Compare pairs; 1 if one verdict is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.verify", description=__doc__)
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    done, bad, began, seed = Counter[bool](), Counter[str](), time.perf_counter(), options.seed
    while done.total() < options.pairs:
        recorded = None
        for pair in pairs_of(seed):
            recorded = recorded or before(program(pair.old.text()))
            wrong = pair.wrong(recorded)
            done[pair.harmless] += 1
            if wrong:
                kind = "false alarm" if pair.harmless else "false identical"
                bad[f"{kind}, {pair.name}"] += 1
                print(f"{kind}, {pair.name}, seed {seed}: {wrong}")
                print(pair.new.text() if bad.total() < 4 else "", flush=True)
        seed += 1
        if seed % 20 == 0:  # the functions of these programs are gone, what was compiled is not
            jax.clear_caches()
        print(f"{done.total()} pairs, {bad.total()} wrong verdicts", file=sys.stderr, flush=True)
    seconds = time.perf_counter() - began
    print(f"{done[False]} mistakes and {done[True]} harmless changes, {seconds:.0f} s: ", end="")
    print(f"{bad.total()} wrong verdicts")
    for name, count in bad.items():
        print(f"{count:6} {name}")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
