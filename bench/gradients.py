"""Gradients of the usual bodies under pmap and under shard_map: ``python -m bench.gradients``.

Prints the tables of docs/gradients.md and draws docs/figures/gradients.png. Nothing is timed: the
numbers are the same on every machine, and a test compares the page with them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

if __name__ == "__main__":
    os.environ.update(JAX_NUM_CPU_DEVICES="8", JAX_PLATFORMS="cpu")

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from bench.harness import ROOT

FIGURE = ROOT / "docs" / "figures" / "gradients.png"
Body = Callable[[Any, Any], Any]


def loss(w: Any, x: Any) -> Any:
    """A loss whose gradient on a device is that device's `x`."""
    return (w * x).sum()


def _grad(reduced: Callable[[Any, str], Any]) -> Body:
    return jax.grad(lambda w, x: reduced(loss(w, x), "i"))


def _nothing(value: Any, _: str) -> Any:
    return value


BODIES: dict[str, Body] = {
    "pmean(grad(loss))": lambda w, x: lax.pmean(jax.grad(loss)(w, x), "i"),
    "psum(grad(loss))": lambda w, x: lax.psum(jax.grad(loss)(w, x), "i"),
    "grad(loss)": _grad(_nothing),
    "grad(psum(loss))": _grad(lax.psum),
    "grad(pmean(loss))": _grad(lax.pmean),
    "pmean(grad(pmean(loss)))": lambda w, x: lax.pmean(_grad(lax.pmean)(w, x), "i"),
}


def _shard_map(body: Body, n: int, *, stacked: bool, check_vma: bool) -> Callable[[Any, Any], Any]:
    """Each device's gradient as a row: a body of one row, in a shard_map."""
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:n]), ("i",))
    specs = (jax.P("i") if stacked else jax.P(), jax.P("i"))

    def block(w: Any, x: Any) -> Any:
        gradient = body(w[0] if stacked else w, x[0])
        return jnp.broadcast_to(gradient, (1,))

    return jax.jit(
        jax.shard_map(block, mesh=mesh, in_specs=specs, out_specs=jax.P("i"), check_vma=check_vma)
    )


def ways(body: Body, n: int) -> dict[str, Callable[[Any, Any], Any]]:
    """The body mapped over n devices in each way, as a function of parameters and rows."""
    stack = jnp.ones(n)
    return {
        "pmap": lambda w, x: jax.pmap(body, "i", devices=jax.devices()[:n])(w * stack, x),
        "vmap": lambda w, x: jax.vmap(body, axis_name="i")(w * stack, x),
        "check_vma=False": _shard_map(body, n, stacked=False, check_vma=False),
        "default, P()": _shard_map(body, n, stacked=False, check_vma=True),
        "default, stacked": lambda w, x: _shard_map(body, n, stacked=True, check_vma=True)(
            w * stack, x
        ),
    }


def measure(n: int) -> dict[str, dict[str, list[float]]]:
    """By body and way, the gradient on each of n devices, whose own ones are 1, 2, ... n."""
    w, x = jnp.float32(1), np.arange(1, n + 1, dtype=np.float32)
    return {
        name: {way: np.asarray(f(w, x)).tolist() for way, f in ways(body, n).items()}
        for name, body in BODIES.items()
    }


def table(measured: dict[str, dict[str, list[float]]]) -> str:
    """Markdown; one number where all devices have the same, bold where it is not pmap's."""
    columns = list(next(iter(measured.values())))
    heads = [f"`{name}`" if "=" in name else name for name in columns]
    lines = ["| body | " + " | ".join(heads) + " |", "|---" * (len(columns) + 1) + "|"]
    for body, by_way in measured.items():
        cells = [_cell(values, values == by_way["pmap"]) for values in by_way.values()]
        lines.append(f"| `{body}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(values: list[float], same: bool) -> str:
    shown = values[:1] if len(set(values)) == 1 else values
    text = " ".join(f"{value:g}" for value in shown)
    return text if same else f"**{text}**"


def drift(steps: int = 60, n: int = 8) -> dict[str, list[float]]:
    """How far parameters are from those of pmap when each gradient is n times too large."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(256, 16)).astype(np.float32)
    y = x @ rng.normal(size=16).astype(np.float32)

    def gradient(w: Any) -> Any:
        return jax.grad(lambda w: jnp.mean((x @ w - y) ** 2))(w)

    updates = {"SGD": _sgd, "Adam": _adam}
    return {name: _apart(update, gradient, steps, n) for name, update in updates.items()}


def _apart(update: Any, gradient: Any, steps: int, n: int) -> list[float]:
    def after(scale: int) -> np.ndarray:
        def turn(carry: Any, k: Any) -> Any:
            carry = update(*carry, scale * gradient(carry[0]), k + 1)
            return carry, carry[0]

        zeros = jnp.zeros(16)
        return np.asarray(lax.scan(turn, (zeros, zeros, zeros), jnp.arange(steps))[1])

    right, wrong = after(1), after(n)
    apart = np.linalg.norm(wrong - right, axis=1) / np.linalg.norm(right, axis=1)
    return apart.tolist()


def _sgd(w: Any, m: Any, v: Any, g: Any, _: Any) -> Any:
    return w - 0.01 * g, m, v


def _adam(w: Any, m: Any, v: Any, g: Any, k: Any) -> Any:
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return w - 0.01 * (m / (1 - 0.9**k)) / (jnp.sqrt(v / (1 - 0.999**k)) + 1e-8), m, v


def draw() -> None:
    """Left, the factor against the number of devices; right, what optimisers make of it."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    counts = [1, 2, 4, 8]
    measured = {n: measure(n) for n in counts}
    lines = {
        "pmean(grad(loss)), params P()": ("pmean(grad(loss))", "default, P()", "o-", "black"),
        "any of them, pmap": ("pmean(grad(loss))", "pmap", "-", "0.7"),
        "pmean(grad(pmean(loss))), stacked": (
            "pmean(grad(pmean(loss)))", "default, stacked", "s--", "0.35",
        ),
    }  # fmt: skip
    for label, (body, way, look, colour) in lines.items():
        factors = [measured[n][body][way][0] / measured[n][body]["pmap"][0] for n in counts]
        left.plot(counts, factors, look, color=colour, label=label)
    left.set(xscale="log", yscale="log", xlabel="devices", ylabel="gradient / gradient of pmap")
    left.set_xticks(counts, [str(n) for n in counts])
    ticks = [1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8]
    left.set_yticks(ticks, ["1/8", "1/4", "1/2", "1", "2", "4", "8"])
    left.set_ylim(0.1, 70)  # room for the legend
    left.set_title("shard_map with its default, check_vma=True", fontsize=10)
    looks = {"SGD": ("o-", "black"), "Adam": ("s--", "0.35")}
    for name, apart in drift().items():
        look, colour = looks[name]
        right.plot(apart, look, color=colour, markevery=10, label=name)
    right.set(yscale="log", xlabel="step", ylabel="distance of parameters, relative")
    right.set_title("training with gradients 8 times too large", fontsize=10)
    for panel in (left, right):
        panel.minorticks_off()
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(axis="y", color="0.92")
        panel.legend(frameon=False, fontsize=8)
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURE, dpi=150)


if __name__ == "__main__":
    print(table(measure(4)))
    draw()
