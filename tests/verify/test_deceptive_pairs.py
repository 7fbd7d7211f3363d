"""Pairs of programs that were written to deceive `verify`, or to alarm it without need.

Each is one step before, by pmap, and one after, by shard_map, on the same rows. `RIGHT` pairs
compute the same, however they are written. `WRONG` pairs do not, and have a cause.
"""

from __future__ import annotations

import textwrap
from typing import NamedTuple

import pytest

from shardlift.verify.compare.verdicts import ProgramVerdict, Side, SiteVerdict
from tests.verify.recording import compared, program

pytestmark = pytest.mark.usefixtures("ranks_are_promoted")


class Steps(NamedTuple):
    """The bodies of a step before and after, and how it is called."""

    old: str
    new: str
    calls: str = "w = f(w, X)"
    cause: str = ""
    top: str = ""

    def text(self, body: str, mapped: str) -> str:
        lines = textwrap.indent(textwrap.dedent(body).strip(), "    ")
        return f"""
import collections, dataclasses
from tests.verify.recording import on_rows
X = np.random.default_rng(0).normal(size=(8, 4, 3)).astype("f4") + 0.1
w = np.ones((8, 3), "f4")
def grad(w, x): return jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w)
{textwrap.dedent(self.top)}
def step(w, x):
{lines}
f = {mapped}
{textwrap.dedent(self.calls)}
"""

    def compare(self) -> tuple[int, list[SiteVerdict]]:
        """The exit status of `verify`, and the verdicts."""
        old, new = self.text(self.old, 'jax.pmap(step, "i")'), self.text(self.new, "on_rows(step)")
        sites = compared(program(old), program(new))
        return ProgramVerdict(Side("before"), Side("after"), tuple(sites)).status, sites


SIGN = "return w - 0.1 * jnp.sign({})"
HALF = SIGN.format("0.125 * g")
MEAN = 'g = lax.pmean(grad(w, x), "i")\n'
SUM = 'g = lax.psum(grad(w, x), "i")\n'
PRINT = 'jax.debug.print("{}", g)\n'
NORM = "norm = jnp.sqrt(jnp.sum(g * g))\n"

WRONG = {
    "a print before, a factor after": Steps(
        MEAN + PRINT + HALF, SUM + HALF, cause="8.000 times too large"
    ),
    "a factor that looks like a mean": Steps(MEAN + HALF, SUM + HALF, cause="8.000 times too"),
    "the norm is printed": Steps(
        MEAN + HALF, SUM + NORM + 'jax.debug.print("{}", norm)\n' + HALF, cause="8.000 times too"
    ),
    "divided twice": Steps(
        MEAN + SIGN.format("g"), MEAN + SIGN.format("g / 8"), cause="8.000 times too small"
    ),
    "normalised": Steps(
        MEAN + NORM + "return w - 0.1 * g / norm",
        SUM + NORM + "return w - 0.1 * g / norm",
        cause="8.000 times too large",
    ),
    "a sum of what is gathered": Steps(
        MEAN + SIGN.format("g"),
        'g = jnp.sum(lax.all_gather(grad(w, x), "i"), 0)\n' + SIGN.format("g"),
        cause="8.000 times too large",
    ),
}
RIGHT = {
    "a print": Steps(MEAN + HALF, MEAN + PRINT + HALF),
    "a print before": Steps(MEAN + PRINT + HALF, MEAN + HALF),
    "a mask of the norm": Steps(
        MEAN + HALF, MEAN + NORM + SIGN.format("0.125 * g * (norm < 100).astype(g.dtype)")
    ),
    "a choice by the norm": Steps(
        MEAN + HALF, MEAN + NORM + SIGN.format("0.125 * jnp.where(norm < 100, g, 0)")
    ),
    "psum and a division": Steps(MEAN + HALF, SUM + "g = g / 8\n" + HALF),
    "psum and two factors": Steps(MEAN + HALF, SUM + SIGN.format("0.015625 * g")),
    "psum of the eighth": Steps(MEAN + HALF, 'g = lax.psum(grad(w, x) / 8, "i")\n' + PRINT + HALF),
    "mean of what is gathered": Steps(
        MEAN + HALF, 'g = jnp.mean(lax.all_gather(grad(w, x), "i"), 0)\n' + HALF
    ),
    "a rate that is computed": Steps(
        "rate = jnp.abs(w[0]) + 1\n" + MEAN + SIGN.format("rate * g"),
        "rate = (jnp.abs(w[0]) + 1) / 8\n" + SUM + SIGN.format("rate * g"),
    ),
    "a mean that is only printed": Steps(
        MEAN + HALF, MEAN + 'jax.debug.print("{}", lax.pmean(jnp.sum(x), "i"))\n' + HALF
    ),
    "the same mean twice": Steps(
        MEAN + "return w - 0.1 * jnp.sign(g) * jnp.tanh(g)",
        MEAN + 'return w - 0.1 * jnp.sign(g) * jnp.tanh(lax.pmean(grad(w, x), "i"))',
    ),
    "a helper that is jitted": Steps(
        MEAN + HALF,
        "@jax.jit\ndef mean(t): return lax.psum(t, 'i') / 8\ng = mean(grad(w, x))\n" + HALF,
    ),
}


@pytest.mark.parametrize("steps", WRONG.values(), ids=WRONG)
def test_wrong_pairs(steps: Steps) -> None:
    status, sites = steps.compare()
    assert status == 1
    said = " ".join(cause for site in sites for cause in site.causes)
    assert steps.cause in said, (said, sites)


@pytest.mark.parametrize("steps", RIGHT.values(), ids=RIGHT)
def test_right_pairs(steps: Steps) -> None:
    status, sites = steps.compare()
    assert [site.verdict for site in sites] == ["identical"] * len(sites), sites
    assert status == 0
    assert not any(site.causes for site in sites)
