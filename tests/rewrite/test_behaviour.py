"""Small programs, executed in this process before and after: what no reader of the text sees."""

import ast
import textwrap
from typing import Any

import jax
import numpy as np
import pytest

import shardlift
from shardlift.rewrite.goal import Goal
from tests.notebooks import notebook, sources
from tests.rewrite.test_programs import migrated

pytestmark = pytest.mark.usefixtures("many_sites")

HEAD = "import jax\nimport numpy as np\n\nx = np.arange(8, dtype=np.float32)\n"
ASKS_FOR_THE_AXIS = """
def mean(x):
    try:
        return jax.lax.pmean(x, "{axis}")
    except NameError:
        return x


named = jax.pmap(mean, axis_name="{axis}")(x)
result = [jax.pmap(mean)(x)]
"""


def run(text: str) -> Any:
    """The `result` of a program."""
    names: dict[str, Any] = {"__name__": "program"}
    exec(compile(text, "program.py", "exec"), names)
    return names["result"]


def rewritten(text: str, goal: Goal = Goal.SHARD_MAP) -> str:
    after = migrated({"main.py": text}, goal=goal)[0]["main.py"]
    assert "jax.pmap" not in after
    return after


@pytest.mark.parametrize("goal", [Goal.SHARD_MAP, Goal.GLOBAL])
@pytest.mark.parametrize("axis", ["qmc", "devices", "batch"])
def test_no_collective_finds_the_axis_of_a_site_without_a_name(axis: str, goal: Goal) -> None:
    text = HEAD + ASKS_FOR_THE_AXIS.format(axis=axis)
    for rows in (*run(text), *run(rewritten(text, goal))):
        np.testing.assert_array_equal(rows, np.arange(8))


SITES = {
    "leading": "jax.pmap(lambda x: jax.lax.psum(x, 'i'), 'i')(x)",
    "unmapped": "jax.pmap(lambda x, y: x * y, in_axes=(0, None))(x, 2)",
    "nested": "jax.pmap(jax.pmap(lambda x: x, 'j'), 'i')(x.reshape(4, 2))",
}


@pytest.mark.parametrize("site", SITES.values(), ids=list(SITES))
def test_what_was_written_for_one_process_raises_in_a_job(
    site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = rewritten(f"{HEAD}result = {site}\n")
    run(text)
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    with pytest.raises(RuntimeError, match="written for one process, not for several"):
        run(text)


GLOBAL = """
def step(w, batch):
    return w + jax.lax.pmean(batch.sum(), "i")


p_step = jax.pmap(step, axis_name="i")


def main():
    w = jax.device_put_replicated(np.float32(0), jax.local_devices())
    return p_step(w, x.reshape(jax.local_device_count(), -1))[0]


{end}
"""
ENDS = {"a script": "result = main()", "a module": "def result():\n    return main()"}


@pytest.mark.parametrize("end", ENDS.values(), ids=list(ENDS))
def test_global_arrays_of_one_process_raise_in_a_job(
    end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = rewritten(HEAD + GLOBAL.format(end=end), Goal.GLOBAL)

    def call() -> Any:
        result = run(text)
        return result() if callable(result) else result

    assert call() == 28 / 8
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    monkeypatch.setattr(jax.sharding.Mesh, "is_multi_process", True)
    with pytest.raises(RuntimeError, match="written for one process, not for several"):
        call()


UNEVEN = """
import contextlib


def step(w, batch):
    return w + jax.lax.pmean(batch.sum(), "i")


p_step = jax.pmap(step, axis_name="i")


def shard(x):
    return x.reshape((jax.local_device_count(), -1) + x.shape[1:])


def feed(w, x):
    batch = shard(x)
    return w, batch


def train(w):
    for x in (np.ones((16, 2), np.float32), np.ones((12, 2), np.float32)):
{loop}
        w = p_step(w, batch)
    return w


result = train(jax.device_put_replicated(np.float32(0), jax.local_devices()))[0]
"""
LOOPS = {
    "a try": "try:\n batch = shard(x)\nexcept ValueError:\n continue",
    "in a function": "try:\n w, batch = feed(w, x)\nexcept (KeyError, ValueError):\n continue",
    "suppressed": "batch = None\nwith contextlib.suppress(ValueError):\n batch = shard(x)\n"
    "if batch is None:\n continue",
}


@pytest.mark.parametrize("loop", LOOPS.values(), ids=list(LOOPS))
def test_an_error_that_is_caught_is_raised_where_it_was(
    loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = HEAD + UNEVEN.format(loop=textwrap.indent(loop.replace("\n ", "\n    "), " " * 8))
    assert run(rewritten(text, Goal.GLOBAL)) == 4
    monkeypatch.setattr(
        jax, "device_put_replicated", shardlift.device_put_replicated, raising=False
    )
    assert run(text) == 4


X64 = "import os\nos.environ['JAX_ENABLE_X64'] = '1'"
DOUBLED = "double = pmap(lambda x: x + x)"
SHOWN = "print(double(np.ones((1, 1))).dtype)"
DEFINED = "def double(x):\n    return jax.pmap(lambda x: x + x)(x)"
NOTEBOOKS = {
    "a cell sets it and imports": [f"{X64}\nimport numpy as np\nfrom jax import pmap", DOUBLED],
    "one cell": [f"{X64}\nimport numpy as np\nfrom jax import pmap\n%time 1\n{DOUBLED}"],
    "a magic": ["%env JAX_ENABLE_X64=1\nimport numpy as np\nfrom jax import pmap\n" + DOUBLED],
    "used in a function above": [DEFINED, X64, "import numpy as np\nimport jax"],
    "before another import": ["import numpy as np", X64, f"from jax import pmap\n{DOUBLED}"],
}
SCRIPTS = {
    "above the import": f"{X64}\nimport numpy as np\nfrom jax import pmap\n\n{DOUBLED}\n",
    "between imports": f"import numpy as np\n{X64}\nfrom jax import pmap\n\n{DOUBLED}\n",
    "in an if": "import os\nimport numpy as np\nif True:\n    os.environ['JAX_ENABLE_X64'] = '1'\n"
    f"from jax import pmap\n\n{DOUBLED}\n",
}


def first_line(text: str, *words: str) -> int:
    return next(k for k, line in enumerate(text.splitlines()) if any(w in line for w in words))


@pytest.mark.parametrize("cells", NOTEBOOKS.values(), ids=list(NOTEBOOKS))
def test_a_notebook_sets_the_environment_before_it_imports_jax(cells: list[str]) -> None:
    after, _ = migrated({"n.ipynb": notebook(*cells, SHOWN)})
    text = "\n".join(sources(after["n.ipynb"]))
    text = text.replace("%env ", "os.environ['JAX_ENABLE_X64'] = '1' #").replace("%", "#")
    ast.parse(text)
    assert "def spmd_map" in text
    assert first_line(text, "JAX_ENABLE_X64") < first_line(text, "import jax", "from jax")


@pytest.mark.parametrize("shared", [True, False], ids=["a module", "inline"])
@pytest.mark.parametrize("script", SCRIPTS.values(), ids=list(SCRIPTS))
def test_a_script_sets_the_environment_before_it_imports_jax(script: str, shared: bool) -> None:
    files = {"main.py": script} | ({"other.py": script} if shared else {})
    text = migrated(files)[0]["main.py"]
    assert ("_spmd" in text) is shared
    imports = ("import jax", "from jax", "from _spmd")
    assert first_line(text, "JAX_ENABLE_X64") < first_line(text, *imports)
