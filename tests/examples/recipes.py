"""The recipes of examples/: what they need, and what their last lines must show."""

import importlib.util
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import children

EXAMPLES = Path(__file__).parents[2] / "examples"


@dataclass(frozen=True)
class Recipe:
    """A folder of examples/, and how to tell from its output that it works."""

    name: str
    needs: tuple[str, ...] = ()  # modules besides jax
    watched: str = "loss"  # the number after this word
    below: float = 0.1  # is under this at the end
    learns: bool = True  # and was not at the beginning
    taps: int = 0  # calls whose collectives are looked into
    exact: bool = True  # idiomatic.py computes the same, up to the order of sums
    suffix: str = ".py"
    keeps_pmap: bool = False  # migrate writes only what is around it

    @property
    def folder(self) -> Path:
        """Where its programs are."""
        return EXAMPLES / self.name

    def check(self, output: str) -> None:
        """Does this output show that it works?"""
        seen = [float(text) for text in re.findall(rf"(?:{self.watched}|->) +([\d.]+)", output)]
        assert seen, output
        assert seen[-1] < self.below, output
        assert not self.learns or seen[0] > 2 * self.below, output


RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe("blackjax", ("blackjax",), "r_hat", 1.05, learns=False),
        Recipe("checkpoints"),
        Recipe("data_parallel", taps=2),
        Recipe("equinox", ("equinox", "optax"), taps=1),  # Adam hides a wrong scale
        Recipe("evaluation", ("flax",), "loss", 1.1, learns=False),
        Recipe("flax_linen", ("flax", "optax"), below=0.3, exact=False),
        Recipe("flax_nnx", ("flax", "optax"), exact=False),
        Recipe("haiku", ("haiku", "optax"), below=0.4, exact=False),
        Recipe("notebook", (), "loss", 1.0, suffix=".ipynb"),
        Recipe("numpyro", ("numpyro",), "r_hat", 1.05, learns=False, exact=False),
        Recipe("prefetch", ("flax",), below=0.01),
        Recipe("processes", keeps_pmap=True),
        Recipe("rl", ("optax",), "falls", 1.0, exact=False),
    )
}


def needed(*modules: str) -> list[pytest.MarkDecorator]:
    """The marks of a test that needs libraries: where one is missing, it is skipped and named."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    reason = f'no {", ".join(missing)} here: pip install "shardlift[examples]"'
    skip = pytest.mark.skipif(bool(missing), reason=reason)
    return [skip, pytest.mark.libraries] if modules else []


def run(*words: str | Path) -> children.Done:
    """`python` with these arguments, on 8 virtual devices."""
    env = children.plain_environment(JAX_PLATFORMS="cpu", JAX_NUM_CPU_DEVICES="8")
    return children.run([sys.executable, *words], env=env)
