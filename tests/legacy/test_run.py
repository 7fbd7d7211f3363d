"""``shardlift run`` around programs that crash, fork, read stdin, are killed, call 10,000 times.

Most run in pairs, plain and under ``run``: output, errors and status must be the same.
"""

import signal
import sys
import textwrap
from pathlib import Path

import pytest

from shardlift.facts import read
from tests import children

pytestmark = pytest.mark.slow
ENV = children.plain_environment(JAX_NUM_CPU_DEVICES="8", JAX_PLATFORMS="cpu")
PLAIN = [sys.executable]
RUN = [sys.executable, "-m", "shardlift.cli", "run", "--quiet"]


def start(how: list[str], path: Path, *args: str, text: str | None = None):
    return children.run([*how, str(path), *args], env=ENV, text=text)


def program(folder: Path, source: str, name: str = "program.py") -> Path:
    path = folder / name
    path.write_text(textwrap.dedent(source))
    return path


# One program, many habits: what it prints must not depend on who runs it.
HABITS = """
    import os, sys, threading
    child = os.fork()  # before JAX has threads: a child made later may hang, whoever runs it
    if child == 0:
        print("forked", flush=True)
        sys.exit(3)
    print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    import jax, jax.numpy as jnp

    print("stdin", input(), sys.stdin.read().split())
    print("argv", sys.argv[1:], __name__, __file__ == sys.argv[0])
    step = jax.pmap(lambda x: x + 1)
    x = jnp.zeros(8)
    for _ in range(CALLS):
        x = step(x)
    print("many", x)
    print("jit", jax.jit(lambda x: jax.pmap(lambda y: y * 2)(x) + 1)(jnp.arange(8.0)))
    def fails(x):
        raise KeyError("lost")

    thread = threading.Thread(target=lambda: jax.pmap(fails)(x), name="worker")
    thread.start()
    thread.join()
    sys.stdout.flush()
    def outer():
        jax.pmap(fails)(x)
    outer()
"""


def frames(shown: str) -> list[str]:
    """The frames of a traceback that are not of JAX itself."""
    lines = [line.strip() for line in shown.splitlines()]
    return [line for line in lines if line.startswith("File") and "site-packages" not in line]


def test_habits(tmp_path: Path, request: pytest.FixtureRequest):
    calls = "10_000" if request.config.getoption("exhaustive") else "2_000"
    path = program(tmp_path, HABITS.replace("CALLS", calls))
    plain, ours = (
        start(how, path, "a", "--devices", "2", text="one\ntwo three\n") for how in (PLAIN, RUN)
    )
    assert plain.stdout.count("forked") == 1
    assert ours.stdout == plain.stdout
    assert (ours.returncode, plain.returncode) == (1, 1)
    assert frames(ours.stderr) == frames(plain.stderr)
    assert "KeyError: 'lost'" in ours.stderr
    assert "shardlift" not in ours.stderr.replace(str(tmp_path), "")


def test_a_record_of_a_program_that_crashes_in_a_child_and_in_itself(tmp_path: Path):
    record = tmp_path / "record.json"
    path = program(
        tmp_path,
        """
        import os, sys
        os.chdir("/")
        import jax, jax.numpy as jnp
        if os.fork() == 0:
            jax.pmap(lambda x: x)  # nothing of a child is recorded
            raise ValueError("in the child")
        os.wait()
        y = jax.pmap(lambda x: x)(jnp.ones((8, 2)))
        y[1]
        raise KeyError("lost")
        """,
    )
    ours = start([*RUN, "--record", str(record)], path, "--flag")
    assert ours.returncode == 1
    assert ours.stderr.count("Traceback") == 2
    whole = read(record)
    assert whole.command == (str(path), "--flag")
    assert [site.calls for site in whole.sites] == [1]


ENDLESS = """
    import time
    import jax, jax.numpy as jnp
    y = jax.pmap(lambda x: x)(jnp.ones(8))
    print("up", flush=True)
    while True:
        time.sleep(0.01)
"""


def test_a_record_of_a_program_that_is_interrupted(tmp_path: Path):
    record = tmp_path / "record.json"
    path = program(tmp_path, ENDLESS)
    how = [*RUN, "--record", str(record), str(path)]
    with children.Child(how, env=ENV, stdout=children.PIPE) as job:
        assert job.stdout
        assert job.stdout.readline() == "up\n"
        job.send_signal(signal.SIGINT)
        errors = job.finish().stderr
    assert job.returncode == -signal.SIGINT, errors
    assert read(record).sites[0].calls == 1
    (shown,) = frames(errors)
    assert str(path) in shown


def test_a_folder_that_cannot_be_written():
    ours = children.run([*RUN, "--record", "/no/such/folder/x.json", __file__])
    assert ours.returncode == 2
    assert "cannot write to the folder of /no/such/folder/x.json" in ours.stderr


def test_the_pytest_plugin(tmp_path: Path):
    (tmp_path / "conftest.py").write_text("from jax import tree_map\n")
    (tmp_path / "test_old.py").write_text(
        "import jax\n\ndef test():\n    assert jax.tree_map(abs, [-1]) == [1]\n"
        "    assert 'PmapFunction' in str(type(jax.pmap(abs)))\n"
        "    assert jax.local_device_count() == 3\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    plain = children.run(command, cwd=tmp_path)
    assert plain.returncode != 0
    plugin = ["-p", "shardlift.pytest", "--shardlift-devices", "3"]
    ours = children.run([*command, *plugin], cwd=tmp_path)
    assert "1 passed" in ours.stdout, ours.stdout + ours.stderr


def test_the_first_line_of_a_notebook_on_colab(tmp_path: Path) -> None:
    """The package of a restored module is loaded when it is asked for, also late."""
    source = """
        import jax, shardlift
        with shardlift.legacy():
            import jax.tools.colab_tpu
            print(jax.tools.colab_tpu.setup_tpu())
    """
    done = start(PLAIN, program(tmp_path, source))
    assert done.stdout == "None\n", done.stderr
