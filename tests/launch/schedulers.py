"""Real schedulers on this machine: Open MPI, MPICH, and a Slurm of one node.

Slurm runs for one test module, with its own key, ports and files in a temporary folder. Where a
scheduler is not installed, the tests that need it are skipped: `.ci/run` installs them if it may.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import secrets
import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from shardlift.launch.job import free_port
from tests import children

NAMES = ("open mpi", "mpich", "slurm")
_MPI = {"open mpi": "mpirun.openmpi", "mpich": "mpiexec.mpich"}
_FLAGS = {"open mpi": ["--allow-run-as-root", "--oversubscribe"], "mpich": []}
_DAEMONS = ("munged", "slurmctld", "slurmd")


def find_tool(name: str) -> str:
    """The path of a program, also of those in ``/usr/sbin``; the test is skipped without it."""
    path = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


def mpi_command(name: str, processes: int) -> list[str]:
    """How MPI starts so many processes."""
    return [find_tool(_MPI[name]), *_FLAGS[name], "-n", str(processes)]


class Slurm:
    """A controller and one node, in the foreground."""

    def __init__(self, folder: Path) -> None:
        """Nothing is started yet."""
        self.folder, self.config = folder, folder / "slurm.conf"
        self._daemons = contextlib.ExitStack()

    @property
    def environ(self) -> dict[str, str]:
        """What the commands of Slurm need."""
        return {"SLURM_CONF": str(self.config)}

    def command(self, processes: int) -> list[str]:
        """How srun starts so many processes; the first that fails ends the others."""
        return ["srun", "--mpi=none", "--kill-on-bad-exit=1", "-n", str(processes)]

    def start(self) -> None:
        """Start the daemons and wait until the node is idle."""
        munged, slurmctld, slurmd = map(find_tool, _DAEMONS)
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o400)
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        self.config.write_text(self._configuration())
        files = {"key-file": "munge.key", "socket": "munge.sock", "pid-file": "munged.pid"}
        files |= {"log-file": "munged.log", "seed-file": "munge.seed"}
        where = [f"--{option}={self.folder / name}" for option, name in files.items()]
        self._daemon([munged, "--foreground", "--force", *where])
        self._wait(lambda: (self.folder / "munge.sock").exists())
        self._daemon([slurmctld, "-D"])
        self._daemon([slurmd, "-D"])
        self._wait(lambda: "idle" in self._sinfo())

    def stop(self) -> None:
        """End all jobs, then the daemons."""
        with contextlib.suppress(Exception):
            children.run(["scancel", "-u", getpass.getuser()], env=self._all(), timeout=20)
        self._daemons.close()

    def _daemon(self, command: list[str]) -> None:
        self._daemons.enter_context(children.Child(command, env=self._all()))

    def _all(self) -> dict[str, str]:
        return {**os.environ, **self.environ}

    def _sinfo(self) -> str:
        return children.run(["sinfo", "-h", "-o", "%t"], env=self._all(), timeout=20).stdout

    def _wait(self, done) -> None:
        deadline = time.monotonic() + 60
        while not done():
            assert time.monotonic() < deadline, self._logs()
            time.sleep(0.2)

    def _logs(self) -> str:
        return "\n".join(path.read_text()[-2000:] for path in self.folder.glob("*.log"))

    def _configuration(self) -> str:
        host, user, here = socket.gethostname().partition(".")[0], getpass.getuser(), self.folder
        # JAX makes its coordinator's port of the job's number: two clusters must not share one.
        first_job = 1 + os.getpid() * 64 % 4032
        return f"""
ClusterName=shardlift
FirstJobId={first_job}
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={free_port()}
SlurmdPort={free_port()}
SlurmUser={user}
SlurmdUser={user}
AuthInfo=socket={here}/munge.sock
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
KillWait=5
MpiDefault=none
StateSaveLocation={here}/state
SlurmdSpoolDir={here}/spool
SlurmctldPidFile={here}/slurmctld.pid
SlurmdPidFile={here}/slurmd.pid
SlurmctldLogFile={here}/slurmctld.log
SlurmdLogFile={here}/slurmd.log
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs=16 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


@contextlib.contextmanager
def running_slurm(folder: Path) -> Iterator[Slurm]:
    """A running Slurm, as a context manager."""
    for name in (*_DAEMONS, "srun"):
        find_tool(name)
    slurm = Slurm(folder)
    try:
        slurm.start()
        yield slurm
    finally:
        slurm.stop()
