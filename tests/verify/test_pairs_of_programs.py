"""Pairs of programs in processes of their own: what only a whole run can show.

Each pair is run by the command. `1` means that it must not say that they are the same.
"""

import re
import sys
from pathlib import Path

import pytest

from tests import children

HEAD = """
import functools, os, sys
{first}
import numpy as np, jax, jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec as P
def smap(f):
    def body(*block):
        return jax.tree.map(lambda x: x[None], f(*jax.tree.map(lambda x: x[0], block)))
    spec, mesh = P("i"), Mesh(np.array(jax.devices()), ("i",))
    body = functools.wraps(f)(body)
    return jax.jit(jax.shard_map(body, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False))
X = np.arange(16, dtype="f4").reshape(8, 2)
def fine(x): return x + 1
def step(x): return x * SCALE
def main():
    {fine}(fine)(X)
    {body}
if __name__ == "__main__":
    main()
"""
# How `step` is called, MAP standing for pmap or shard_map.
WAYS = {
    "call": "MAP(step)(X)",
    "thread": "import threading; threading.Timer(0.5, MAP(step), [X]).start()",
    "exit handler": "import atexit; atexit.register(MAP(step), X)",
    "pjit": "from jax.experimental.pjit import pjit; pjit(step)(X)",
    "two sites": "a = MAP(step); b = MAP(step); a(X); b(X + 1)",
    "copied": "import copy; copy.deepcopy(MAP(step))(X)",
    "exported only": "from jax import export; f = jax.jit(step); export.export(f)(X); f(X)",
    "guarded": "f = MAP(step); y = f(X)\n    with jax.transfer_guard('disallow'): f(y)",
    "child left behind": "MAP(step)(X); import subprocess; subprocess.Popen(['sleep', '60'])",
}


def verify(folder: Path, old: str, new: str, *args: str) -> children.Done:
    for name, text in (("old.py", old), ("new.py", new)):
        (folder / name).write_text(text)
    command = [sys.executable, "-m", "shardlift", "verify", *args, "old.py", "new.py"]
    return children.run(command, cwd=folder, env=children.plain_environment())


def text(body: str, mapped: str, scale: int, first: str = "") -> str:
    whole = HEAD.format(fine=mapped, body=body.replace("MAP", mapped), first=first)
    return whole.replace("SCALE", str(scale))


def all_ways(mapped: str, scale: int) -> str:
    """A program that calls one function in each of the ways: ``step0``, ``step1``, and so on."""
    names = {way: f"step{k}" for k, way in enumerate(WAYS)}
    steps = "".join(f"def {name}(x): return x * {scale}\n" for name in names.values())
    body = "\n    ".join(WAYS[way].replace("step", name) for way, name in names.items())
    return text(body, mapped, scale).replace("def main", f"{steps}def main")


@pytest.mark.exhaustive
def test_ways_to_call_a_function(tmp_path: Path) -> None:
    old = all_ways("jax.pmap", 2)
    done = verify(tmp_path, old, all_ways("smap", 2))
    assert done.returncode == 0, done.stdout
    assert f"{len(WAYS) + 1} sites: {len(WAYS) + 1} identical" in done.stdout
    done = verify(tmp_path, old, all_ways("smap", 3))
    assert done.returncode == 1, done.stdout
    assert f"{len(WAYS)} different, 1 identical" in done.stdout
    different = set(re.findall(r"^different +(\w+)", done.stdout, re.MULTILINE))
    assert different == {f"step{k}" for k in range(len(WAYS))}


@pytest.mark.exhaustive
def test_calls_in_forked_children(tmp_path: Path) -> None:
    body = "jax.clear_caches()\n    pid = os.fork()\n    if not pid: print(1); os._exit(0)\n"
    quiet = body + "    os.waitpid(pid, 0)"
    done = verify(tmp_path, text(quiet, "jax.pmap", 2), text(quiet, "smap", 2))
    assert done.returncode == 0, done.stdout  # a child that calls nothing
    early = """pid = os.fork()
if not pid:
    import jax, numpy as np
    jax.pmap(lambda x: x * 3)(np.ones(8))
    os._exit(0)
os.waitpid(pid, 0)
"""
    done = verify(tmp_path, text("pass", "jax.pmap", 2, early), text("pass", "smap", 2))
    assert done.returncode == 1, done.stdout
    assert "1 child process used JAX; their calls were not recorded" in done.stdout


STARTS = {
    "a program": "import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])",
    "multiprocessing": "import multiprocessing; start = multiprocessing.get_context('spawn')\n"
    "    child = start.Process(target=work); child.start(); child.join()",
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize(("work", "status"), [("print(1)", 0), ("jax.jit(fine)(X)", 1)])
def test_calls_in_children(tmp_path: Path, start: str, work: str, status: int) -> None:
    body = STARTS[start].format(child=f"import jax; fine, X = abs, -1.0; {work}")
    programs = [
        text(body, mapped, 2).replace("def main", f"def work(): {work}\ndef main")
        for mapped in ("jax.pmap", "smap")
    ]
    done = verify(tmp_path, *programs)
    assert done.returncode == status, done.stdout
    assert ("used JAX" in done.stdout) == bool(status)
