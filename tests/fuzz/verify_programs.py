"""Random training programs in pmap, moved to shard_map: rightly, or with a mistake."""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

OPTIMISERS = {
    "sgd": "g",
    "sign": "jnp.sign(g)",
    "scaled": "jnp.sign(0.125 * g)",
    "norm": "g / jnp.sqrt(jnp.sum(g * g) + 1e-9)",
}


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
    tree: str = "dict"  # of the outputs; or "tuple", "nested"
    phases: bool = False  # a second program of the step, made at the same line
    late: tuple[str, str, str] | None = None  # a change of a line in the second phase
    varying: frozenset[str] = field(default_factory=lambda: frozenset({"h", "s", "ring"}))

    def text(self) -> str:
        """The program."""
        extra, given = (", extra=None", ", None") if self.extra else ("", "")
        flat = ".reshape(-1, D)" if self.layout == "global" else ""
        state = "W" if self.layout == "global" else "np.stack([W] * 8)"
        made = self.made.replace("MAPPED", self._mapped())
        if self.phases:
            body = f"{self._step(extra)}\n{made}\nreturn {self.call}"
            made = f"def make(phase):\n{_indent(body)}"
            made += "\nphases = [make(0), make(1)]"
        else:
            made = f"{self._step(extra)}\n{made}"
        call = "phases[k >= STEPS // 2]" if self.phases else self.call
        return f"""
STEPS, B, D = {self.steps}, {self.batch}, {self.features}
rng = np.random.default_rng({self.seed})
W = rng.normal(size=D).astype("f4")
XS = rng.normal(size=(STEPS, 8, B, D)).astype("f4")
KEYS = [jax.random.split(jax.random.key(k + {self.seed}), 8) for k in range(STEPS)]
{self.top}
{made}
w0 = w = {state}
for k in {self.calls}:
    w, out = {call}({self.fed_back}, ({self.rows}){flat}, {self.keys}{given})
""".replace('"i"', f'"{self.axis}"')

    def _tree_of(self, values: dict[str, str]) -> str:
        if self.tree == "dict":
            return "{" + ", ".join(f'"{name}": {value}' for name, value in values.items()) + "}"
        listed = "".join(f"{value}, " for value in values.values())
        return f"({listed})" if self.tree == "tuple" else f"[({listed}),]"

    def _step(self, extra: str) -> str:
        returned = f"    return w, {self._tree_of(self.outputs)}"
        if self.late is None or not self.phases:
            body = "\n".join(f"    {line}" for line in self.lines.values())
        else:
            name, old, new = self.late
            body = "\n".join(
                f"    {line}"
                if key != name
                else f"    if phase:\n        {line.replace(old, new)}\n    else:\n        {line}"
                for key, line in self.lines.items()
            )
        return f"def step(w, x, key{extra}):\n{body}\n{returned}"

    def _mapped(self) -> str:
        if self.layout == "pmap":
            return 'jax.pmap(step, axis_name="i")'
        if self.layout == "rows":
            return f'on_rows(step, "{self.axis}")'
        specs = self._tree_of(
            {
                name: f"P({AXIS if _first_name(value) in self.varying else ''})"
                for name, value in self.outputs.items()
            }
        )
        given = ', P("i"), P("i")' + ", P()" * bool(self.extra)
        return f"""jax.jit(jax.shard_map(
    functools.wraps(step)(lambda w, x, key, *rest: step(w, x, key[0], *rest)),
    mesh=Mesh(np.array(jax.devices()), ("i",)), in_specs=(P(){given}),
    out_specs=(P(), {specs}), check_vma=False))"""


def _first_name(value: str) -> str:
    return re.split(r"\W", value)[0]


AXIS = '"i"'


def _indent(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


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
        "count": 'count = lax.psum(jnp.sum((h > 0.1).astype(jnp.int32)), "i")',
        "edges": "edges = jnp.array([-0.0, jnp.nan, jnp.inf]) * jnp.sign(jnp.sum(h * h) + 1)",
        "turns": 'turns = lax.scan(lambda c, v: (0.5 * c + lax.pmean(v, "i"), None), 0 * w, x)[0]',
    }
    for name in rng.sample(sorted(metrics), rng.randint(1, 3)):
        lines[name] = metrics[name]
        outputs[name] = name
    lines["update"] = f"w = w - 0.1 * {OPTIMISERS[rng.choice(sorted(OPTIMISERS))]}"
    sizes = {"batch": rng.choice([1, 2, 2, 4]), "features": rng.randint(2, 4)}
    steps = rng.randint(1, 4)
    case = Case(seed=rng.randrange(1000), lines=lines, outputs=outputs, steps=steps, **sizes)
    phases = steps > 1 and rng.random() < 0.4
    return replace(case, phases=phases)


def moved(case: Case, rng: random.Random) -> Case:
    """The same program in shard_map."""
    return replace(case, layout=rng.choice(["rows", "global"]))


def with_lines(case: Case, **lines: str) -> Case:
    """The case with other or further lines; the update stays the last."""
    update = lines.pop("update", case.lines["update"])
    rest = {name: line for name, line in case.lines.items() if name != "update"}
    return replace(case, lines={**rest, **lines, "update": update})


def changed(case: Case, name: str, old: str, new: str) -> Case | None:
    """The case with another text in one of its lines; None if it is not there."""
    line = case.lines.get(name, "")
    return with_lines(case, **{name: line.replace(old, new)}) if old in line else None


Change = Callable[[Case, random.Random], "Case | None"]


def in_line(name: str, old: str, new: str) -> Change:
    """A change of the text of one line."""
    return lambda case, _: changed(case, name, old, new)


def of_case(**fields: str) -> Change:
    """A change of how the step is called."""
    return lambda case, _: replace(case, **fields)  # type: ignore[arg-type]


# ---- mistakes


def _with_hidden(case: Case, value: str) -> Case:
    """The case with another value for the output h, which may have been renamed."""
    return replace(case, outputs={k: value if v == "h" else v for k, v in case.outputs.items()})


def _later_only(change: Change) -> Change:
    """A change that shows from the second step on."""
    return lambda case, rng: change(case, rng) if case.steps > 1 else None


def _in_second_phase(name: str, old: str, new: str) -> Change:
    """A change of the text of one line in the second phase, if that text is there."""
    return lambda case, _: (
        replace(case, late=(name, old, new))
        if case.phases and old in case.lines.get(name, "")
        else None
    )


MISTAKES: dict[str, Change] = {
    "scale: gradient": in_line("grads", "jnp.mean(", "8 * jnp.mean("),
    "scale: step": lambda case, _: with_lines(
        case, update=re.sub(r"\b0\.1\b", "0.2", case.lines["update"])
    ),
    "axis: mean": in_line("centre", "x.mean(0)", "x.mean(1, keepdims=True)"),
    "axis: index": in_line("index", "1 + 0.1", "1.1 + 0.1"),
    "reduction: gradient": in_line("mean", "pmean", "psum"),
    "reduction: loss": in_line("loss", "pmean", "psum"),
    "reduction: total": in_line("total", "psum", "pmean"),
    "reduction: top": in_line("top", "pmax", "pmin"),
    "reduction: lowest": in_line("low", "pmin", "pmax"),
    "order: ring": in_line("ring", "k + 1", "k + 3"),
    "scale: gathered": in_line("every", "(h,", "(1.001 * h,"),
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
    "dtype: output": lambda case, _: _with_hidden(case, "h.astype(jnp.bfloat16)"),
    "dtype: rounding": in_line("centre", "s = x", "s = x.astype(jnp.bfloat16).astype(x.dtype)"),
    "dtype: gradient": in_line(
        "mean", 'lax.pmean(g, "i")', 'lax.pmean(g.astype(jnp.bfloat16), "i").astype(g.dtype)'
    ),
    "copy: first device": lambda case, _: _with_hidden(case, 'lax.all_gather(h, "i")[0]'),
    # In a global array this is the layout of pmap, and right.
    "copy: shape": lambda case, _: (
        _with_hidden(case, "h[None]") if case.layout != "global" else None
    ),
    "late difference": of_case(rows="XS[k] * np.float32(1.01 if k == STEPS - 1 else 1)"),
    "host: not fed back": _later_only(of_case(fed_back="w0")),
    "host: fewer calls": _later_only(of_case(calls="range(STEPS - 1)")),
    "host: more calls": of_case(calls="[*range(STEPS), 0]"),
    "phase: sum for mean": _in_second_phase("mean", "pmean", "psum"),
    "phase: scale": _in_second_phase("grads", "jnp.mean(", "8 * jnp.mean("),
    "reduction: gathered": in_line(
        "mean", 'lax.pmean(g, "i")', 'jnp.sum(lax.all_gather(g, "i"), 0)'
    ),
    "reduction: divided again": in_line("mean", 'lax.pmean(g, "i")', 'lax.pmean(g, "i") / 8'),
    "output: missing": lambda case, _: replace(
        case, outputs={k: v for k, v in case.outputs.items() if v != "h"}
    ),
}


# ---- harmless changes


def _renamed(case: Case, _: random.Random) -> Case:
    lines = {name: re.sub(r"\bg\b", "grads", line) for name, line in case.lines.items()}
    return replace(case, lines=lines)


def _helper(case: Case, _: random.Random) -> Case | None:
    top = 'def average(tree):\n    return lax.pmean(tree, "i")\n'
    other = changed(case, "mean", 'lax.pmean(g, "i")', "average(g)")
    return other and replace(other, top=top)


def _reordered(case: Case, rng: random.Random) -> Case:
    wanted = ("mean", "loss", "total", "top", "turns", "low", "every")
    names = [name for name in wanted if name in case.lines]
    rest = [name for name in case.lines if name not in (*names, "update")]
    rng.shuffle(names)
    return replace(case, lines={n: case.lines[n] for n in (*rest, *names, "update")})


def _renamed_output(case: Case, _: random.Random) -> Case:
    outputs = {"z_" + k if k == "hidden" else k: v for k, v in case.outputs.items()}
    return replace(case, outputs=outputs)


def _with_line(name: str, line: str) -> Change:
    """A further line, whose value nothing else needs."""
    return lambda case, _: with_lines(case, **{name: line})


def _reordered_outputs(case: Case, rng: random.Random) -> Case | None:
    if case.tree in ("tuple", "nested"):
        return None
    names = rng.sample(sorted(case.outputs), len(case.outputs))
    return replace(case, outputs={name: case.outputs[name] for name in names})


MEANS = [
    'lax.psum(g, "i") / 8',
    'lax.psum(g, "i") * 0.125',
    'lax.psum(g / 8, "i")',
    '0.125 * lax.psum(g, "i")',
    'lax.psum(g, "i") / lax.psum(1, "i")',
    'jax.tree.map(lambda t: lax.pmean(t, "i"), g)',
    'jax.jit(lambda t: lax.pmean(t, "i"))(g)',
]


def _rate(case: Case, _: random.Random) -> Case | None:
    """The factor of the mean is in the rate; powers of two, so that nothing is rounded."""
    if "0.1 * g" not in case.lines["update"] or "/" in case.lines["update"]:
        return None
    update = "w = w - (jnp.float32(0.1) / 8) * g"
    return with_lines(case, mean='g = lax.psum(g, "i")', update=update)


HARMLESS: dict[str, Change] = {
    "moved": lambda case, _: case,
    "renaming: variable": _renamed,
    "renaming: axis": of_case(axis="devices"),
    "renaming: output": _renamed_output,
    "splitting a function": _helper,
    "order of lines": _reordered,
    "argument": of_case(extra="extra"),
    "two sites": of_case(
        made="def make_one():\n    return MAPPED\nfs = [make_one(), make_one()]", call="fs[k % 2]"
    ),
    "another mean": lambda case, r: changed(case, "mean", 'lax.pmean(g, "i")', r.choice(MEANS)),
    "the mean in the rate": _rate,
    "the mean after the sum": lambda case, rng: in_line("update", "sign(g)", "sign(0.125 * g)")(
        with_lines(case, mean='g = lax.psum(g, "i")'), rng
    ),
    "another name of a function": in_line("loss", "jnp.mean(h ** 2)", "(h * h).mean()"),
    "another tree": lambda case, r: replace(case, tree=r.choice(["dict", "tuple", "nested"])),
    "order of outputs": _reordered_outputs,
    "print: gradient": _with_line("print", 'jax.debug.print("{}", g)'),
    "callback": _with_line("print", "jax.debug.callback(lambda t: None, g)"),
    "mask": _with_line("mask", "g = g * (jnp.sum(g * g) < 1e9).astype(g.dtype)"),
}
MEAN = {"another mean", "the mean in the rate", "the mean after the sum"}
# What changes the same part of a program.
EXCLUSIVE = [
    {"print: gradient", "callback"},
    {"renaming: variable", *MEAN, "mask", "print: gradient"},
    {*MEAN, "splitting a function", "mask"},
    {"argument", "two sites"},
    {"renaming: variable", "callback", "splitting a function"},
    {"two sites", "phases"},
]


def rewritten(case: Case, rng: random.Random, most: int = 4) -> tuple[Case, list[str]]:
    """The case with several harmless changes, and their names."""
    names: list[str] = []
    for name in rng.sample(sorted(HARMLESS), most):
        clash = any(name in group and group & {*names} for group in EXCLUSIVE)
        if clash or (name == "two sites" and case.phases):
            continue
        new = HARMLESS[name](case, rng)
        if new is not None:
            case, names = new, [*names, name]
    return case, names
