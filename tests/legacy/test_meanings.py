"""Names that JAX kept and whose meaning it changed: today's outside, the former one inside."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import multihost_utils
from jax.sharding import AxisType

import shardlift
from shardlift import _compat
from shardlift._legacy.names import CHANGED
from tests import children
from tests.processes.harness import run_processes

N = 4


def rows() -> jax.Array:
    return jax.pmap(lambda x: x * 2)(jnp.arange(2.0 * N).reshape(N, 2))


# What a program sees, the value that JAX 0.4.20 gave (measured there), and the release since which
# it is another one.
MEANINGS = {
    "addressable_data": (lambda: rows().addressable_data(1).shape, (2,), "0.4.34"),
    "data of a shard": (lambda: rows().addressable_shards[1].data.shape, (2,), "0.4.34"),
    "index of a shard": (lambda: rows().addressable_shards[1].index, (1, slice(None)), "0.4.34"),
    "random numbers": (
        lambda: np.round(jax.random.uniform(jax.random.PRNGKey(0), (3,)), 6).tolist(),
        np.round(np.float32([0.9653214, 0.31468165, 0.63302994]), 6).tolist(),
        "0.5",
    ),
    "process_allgather": (
        lambda: multihost_utils.process_allgather({"a": rows()})["a"].shape,
        (N, 2),
        "0.5",
    ),
    "make_mesh": (lambda: jax.make_mesh((N,), ("i",)).axis_types, (AxisType.Auto,), "0.9"),
}


@pytest.mark.parametrize("name", MEANINGS)
def test_a_meaning_is_that_of_the_jax_the_program_was_written_for(name: str):
    see, before, changed = MEANINGS[name]
    today = see()
    with shardlift.legacy(written_for="0.4.20") as uses:
        assert see() == before
    assert uses.keys() & CHANGED.keys() or today == before
    with shardlift.legacy(written_for=changed):
        assert see() == today
    with shardlift.legacy():
        assert see() == today
    assert see() == today


def test_empty_arrays_are_zeros(monkeypatch):
    monkeypatch.setattr(_compat, "VERSION", max(_compat.VERSION, (0, 11)))
    with shardlift.legacy() as uses:
        x = jnp.empty((3, 2), dtype=int)
        assert (x.dtype, x.sum()) == (np.int32, 0)
        like = jnp.empty_like(prototype=jnp.ones(3), shape=(5,))
        assert (like.shape, like.sum()) == ((5,), 0)
        jaxpr = jax.make_jaxpr(lambda: jnp.empty(3))()
    assert "empty" not in str(jaxpr)
    assert uses == {"jax.numpy.empty": 2, "jax.numpy.empty_like": 1}


def test_a_key_of_the_program_that_chose_its_random_numbers_is_left_alone():
    today = jax.random.uniform(jax.random.PRNGKey(0), (3,))
    with shardlift.legacy(written_for="0.4.20") as uses, jax.threefry_partitionable(True):
        np.testing.assert_array_equal(jax.random.uniform(jax.random.PRNGKey(0), (3,)), today)
    assert "jax.random.PRNGKey" not in uses


def test_a_library_gets_todays_meaning():
    """A function of an installed file, as the frames tell."""
    code = compile(
        "def see(x, jax):\n    return x.addressable_data(0).shape, jax.make_mesh((1,), ('i',))",
        "/env/lib/python3/site-packages/library.py",
        "exec",
    )
    library: dict[str, object] = {"__name__": "library"}
    exec(code, library)
    with shardlift.legacy(written_for="0.4.20"):
        shape, mesh = library["see"](rows(), jax)  # type: ignore[operator]
    assert (shape, mesh.axis_types) == ((1, 2), (AxisType.Explicit,))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("requirement", "options", "old"),
    [
        (None, [], True),
        ("jax==0.4.13", [], True),
        ("jax>=0.6", [], False),
        ("jax>=0.6", ["--written-for", "0.4.20"], True),
        (None, ["--written-for", "0.7"], False),
        (None, ["--no-patch"], False),
    ],
)
def test_run_knows_what_the_program_was_written_for(tmp_path, requirement, options, old):
    program = tmp_path / "train.py"
    program.write_text("import jax\nprint(jax.random.uniform(jax.random.PRNGKey(0)))\n")
    if requirement:
        (tmp_path / "requirements.txt").write_text(f"{requirement}\n")
    command = [sys.executable, "-m", "shardlift", "run", *options, str(program)]
    env = children.plain_environment(JAX_PLATFORMS="cpu")
    done: subprocess.CompletedProcess[str] = children.run(command, env=env)
    assert done.stdout.startswith("0.41845") is old, done.stdout + done.stderr
    assert ("random numbers are those of JAX before 0.5" in done.stderr) is old


@pytest.mark.slow
def test_run_refuses_what_is_no_version(tmp_path):
    (tmp_path / "train.py").write_text("")
    command = [sys.executable, "-m", "shardlift", "run", "--written-for", "old", "train.py"]
    done = children.run(command, env=children.plain_environment(), cwd=tmp_path)
    assert done.returncode == 2
    assert "--written-for: 'old' is not a version such as" in done.stderr


def gather_global() -> list[list[int]]:
    import jax
    import numpy as np
    from jax.experimental import multihost_utils
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    import shardlift

    mesh = Mesh(np.array(jax.devices()), ("i",))
    sharding = NamedSharding(mesh, PartitionSpec("i"))
    x = jax.make_array_from_callback((4,), sharding, lambda index: np.arange(4.0)[index])
    with shardlift.legacy():
        whole = multihost_utils.process_allgather({"x": x, "mine": np.zeros(3)})
        local = multihost_utils.process_allgather(np.zeros(3), tiled=True)
    return [whole["x"].tolist(), list(whole["mine"].shape), list(local.shape)]


@pytest.mark.slow
def test_an_array_of_all_processes_is_gathered_whole():
    results = run_processes(gather_global, processes=2, devices=2)
    assert [r.value for r in results] == [[[0.0, 1.0, 2.0, 3.0], [2, 3], [6]]] * 2
