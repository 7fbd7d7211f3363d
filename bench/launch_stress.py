"""Many launches of one job on a busy machine: how many hang?

``python -m bench.launch_stress --processes 2 --devices 4 --launches 100`` starts the same job
again and again through the launcher and prints a count of how the jobs ended. The job is a
training loop of small steps with several collectives each; the first process reads the loss
now and then, the others never, and run ahead as far as XLA lets them.

A job hangs when its processes have used hardly any CPU time for a while. Then the stacks of all
their threads are saved, if gdb or py-spy is there. ``--fork`` makes launches cheap: the processes
are forked from one that has imported JAX and started nothing. By hand: it takes minutes.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import importlib.metadata
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

from shardlift.launch import child, job
from shardlift.launch.job import Job, Outcome
from shardlift.launch.program import Program, virtual_devices

TICKS = os.sysconf("SC_CLK_TCK")
# What a process uses of a core, at the least, while its job does not hang. One that waits uses a
# third of it, to tell the coordinator that it is alive.
WORKING = 0.007


def train(folder: str, steps: int, processes: int, devices: int) -> None:
    """The program of each process."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding
    from jax.sharding import PartitionSpec as P

    if (jax.process_count(), jax.local_device_count()) != (processes, devices):
        raise RuntimeError(f"not the job that was asked for: {jax.devices()}")
    Path(folder, f"{jax.process_index()}.pid").write_text(str(os.getpid()))
    mesh = Mesh(np.array(jax.devices()), ("i",))

    def body(w: Any, x: Any) -> Any:
        loss, grad = jax.value_and_grad(lambda w: jnp.mean(jnp.tanh(x @ w) ** 2))(w)
        grad = jax.lax.pmean(grad, "i")
        scale = jnp.max(jax.lax.all_gather(jnp.abs(grad).max(), "i"))
        return w - 0.1 * grad / (1 + scale), jax.lax.pmean(loss, "i")

    specs = {"in_specs": (P(), P("i")), "out_specs": P()}
    step = jax.jit(jax.shard_map(body, mesh=mesh, check_vma=False, **specs), donate_argnums=0)
    rows = NamedSharding(mesh, P("i"))
    w = jax.device_put(np.ones((8, 8), np.float32), NamedSharding(mesh, P()))
    batch = np.ones((2 * jax.local_device_count(), 8), np.float32)
    loss = None
    for k in range(steps):
        w, loss = step(w, jax.make_array_from_process_local_data(rows, batch))
        if jax.process_index() == 0 and k % 50 == 10:
            float(loss)
    jax.block_until_ready((w, loss))


class Imported:
    """Stands in for ``AfterImport`` where the module has been imported already."""

    def __init__(self, name: str, then: Callable[[ModuleType], None]) -> None:
        self.install = partial(then, sys.modules[name])


class Fork:
    """Stands in for ``subprocess.Popen``: one process of a job, forked from this one."""

    def __init__(
        self, args: Sequence[str], *, env: dict[str, str], pass_fds: Sequence[int], **_: Any
    ) -> None:
        self.args, self.returncode = args, None
        reads, writes = zip(*(os.pipe() for _ in range(2)), strict=True)
        with warnings.catch_warnings():  # JAX has started no thread yet
            warnings.simplefilter("ignore")
            self.pid = os.fork()
        if self.pid == 0:
            self._run(env, writes, set(pass_fds))
        for end in writes:
            os.close(end)
        self.stdout, self.stderr = (os.fdopen(end, "rb", buffering=0) for end in reads)

    def _run(self, env: dict[str, str], outputs: Sequence[int], keep: set[int]) -> None:
        status = 1
        try:
            os.setsid()
            for to, end in enumerate(outputs, start=1):
                os.dup2(end, to)
            for name in set(map(int, os.listdir("/proc/self/fd"))) - keep - {0, 1, 2}:
                with contextlib.suppress(OSError):
                    os.close(name)
            os.environ.update(env)
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            atexit._clear()
            with mock.patch.object(child, "AfterImport", Imported):
                child.main(self.args[-1])
            status = 0
        except SystemExit as error:
            status = error.code if isinstance(error.code, int) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            atexit._run_exitfuncs()
            sys.stdout.flush()
            os._exit(status)

    def poll(self) -> int | None:
        return self._reap(os.WNOHANG)

    def wait(self) -> int | None:
        return self._reap(0)

    def _reap(self, flags: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, flags)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


def cpu_seconds(pid: int) -> float:
    """The CPU time that a process has used; 0 if it is gone."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(after_name[11]) + int(after_name[12])) / TICKS


def stacks(pid: int) -> str:
    """The stacks of all threads of a process, by the tools that are installed."""
    tools = {
        "py-spy": ["dump", "--pid", str(pid)],
        "gdb": ["-p", str(pid), "-batch", "-ex", "thread apply all bt 30"],
    }
    parts = []
    for tool, args in tools.items():
        if shutil.which(tool) is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):  # gdb, on a very busy machine
                done = subprocess.run([tool, *args], capture_output=True, text=True, timeout=120)
                parts.append(f"{tool}\n{done.stdout}")
    return "\n\n".join(parts)


class Watcher:
    """Ends this process' job, by a signal, when it hangs."""

    def __init__(self, folder: Path, still: float, saved: Path | None) -> None:
        self.folder, self.still, self.saved = folder, still, saved
        self.hung = False
        self.over = threading.Event()

    def __enter__(self) -> Watcher:
        self.thread = threading.Thread(target=self._watch)
        self.before = signal.signal(signal.SIGTERM, self._terminate)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join()
        signal.signal(signal.SIGTERM, self.before)

    def _terminate(self, *_: object) -> None:
        """Our own signal can come when the job is over: debuggers make processes fail."""
        if not self.hung:
            sys.exit("terminated")

    def _watch(self) -> None:
        used, since = -1.0, time.monotonic()
        while not self.over.wait(1.0):
            pids = self.pids()
            now = sum(map(cpu_seconds, pids))
            if now >= used + WORKING * self.still * max(len(pids), 1):
                used, since = now, time.monotonic()
            if time.monotonic() - since > self.still:
                self.hung = True
                self._save()
                os.kill(os.getpid(), signal.SIGTERM)
                return

    def pids(self) -> list[int]:
        return [int(text) for path in self.folder.glob("*.pid") if (text := path.read_text())]

    def _save(self) -> None:
        if self.saved is not None:
            self.saved.mkdir(parents=True, exist_ok=True)
            for pid in self.pids():
                (self.saved / f"{pid}.txt").write_text(stacks(pid))


@contextlib.contextmanager
def busy(burners: int) -> Iterator[None]:
    """So many processes that do nothing but use a core."""
    spin = [sys.executable, "-c", "while True: pass"]
    running = [subprocess.Popen(spin) for _ in range(burners)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def run_job(options: argparse.Namespace, environ: dict[str, str]) -> str:
    """Launch one job; how it ended."""
    with tempfile.TemporaryDirectory() as folder:
        sizes = ("steps", "processes", "devices")
        same = [f"--{name}={getattr(options, name)}" for name in sizes]
        program = Program(__file__, ("--train", folder, *same))
        lines: list[str] = []
        with Watcher(Path(folder), options.still, options.stacks) as watcher:
            outcome: Outcome = Job(
                program,
                processes=options.processes,
                devices=options.devices,
                emit=lambda process, _, line: lines.append(f"[{process}] {line}"),
                environ=environ,
            ).run()
        if outcome.interrupted and not watcher.hung:
            raise KeyboardInterrupt
    if watcher.hung:
        return "hung"
    if outcome.status:
        print(*lines[-20:], sep="\n", file=sys.stderr)
    return "ended" if outcome.status == 0 else "failed"


def stress(options: argparse.Namespace, environ: dict[str, str]) -> Counter[str]:
    """Launch the jobs, one after the other; how many ended in which way."""
    ends: Counter[str] = Counter()
    for number in range(1, options.launches + 1):
        ends[run_job(options, environ)] += 1
        if number % options.every == 0:
            load = f"load {os.getloadavg()[1]:.0f} on {os.cpu_count()} cores"
            now = time.strftime("%H:%M:%S")
            print(f"{now} {number} launches, {load}: {dict(ends)}", flush=True)
    return ends


def environment(options: argparse.Namespace, cache: str) -> dict[str, str]:
    """Of the processes; what is compiled once is there for all launches."""
    root = Path(__file__).resolve().parents[1]
    path = os.pathsep.join([str(root), str(root / "src"), os.environ.get("PYTHONPATH", "")])
    kept = {"JAX_COMPILATION_CACHE_DIR": cache, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    given = dict(setting.split("=", 1) for setting in options.setting)
    return {**os.environ, "PYTHONPATH": path, **kept, **given}


def forking(options: argparse.Namespace, environ: dict[str, str]) -> Any:
    """Import JAX here, with the settings of the processes, and fork them from now on."""
    os.environ.update(environ, JAX_CPU_COLLECTIVES_IMPLEMENTATION="gloo")
    virtual_devices(options.devices, os.environ)
    import jax  # noqa: F401

    return mock.patch.object(job.subprocess, "Popen", Fork)


def main() -> int:
    """Status 0: no job hung, none failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--devices", type=int, default=4, help="of each process")
    parser.add_argument("--launches", type=int, default=20)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--busy", type=int, default=0, help="processes that only use a core")
    parser.add_argument("--setting", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--still", type=float, default=20.0, help="seconds until a job hangs")
    parser.add_argument("--stacks", type=Path, help="folder for the stacks of a job that hangs")
    parser.add_argument("--every", type=int, default=25, help="launches between two lines")
    parser.add_argument("--fork", action="store_true")
    parser.add_argument("--train", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.train:
        train(options.train, options.steps, options.processes, options.devices)
        return 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as cache, busy(options.busy):
        environ = environment(options, cache)
        with forking(options, environ) if options.fork else contextlib.nullcontext():
            ends = stress(options, environ)
    size = f"{options.processes}x{options.devices}"
    about = {"jaxlib": importlib.metadata.version("jaxlib"), "job": size, "steps": options.steps}
    settings = {"busy": options.busy, "settings": options.setting, "fork": options.fork}
    spent = {"seconds": round(time.monotonic() - began), "cores": os.cpu_count()}
    print(json.dumps({**about, **settings, **spent, **ends}))
    return 0 if set(ends) <= {"ended"} else 1


if __name__ == "__main__":
    sys.exit(main())
