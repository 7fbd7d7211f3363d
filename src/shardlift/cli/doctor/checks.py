"""What `doctor` looks at, one function each. Whatever can hang or crash is tried in a child."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import re
import subprocess
from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

from shardlift.cli.children import plain_environment, run_python

__all__ = ["CHECKS", "Found", "State"]

OLDEST_JAX = (0, 10)
_INSTALL = 'pip install "shardlift[jax]"'
_PROXIES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")


class State(Enum):
    """What came of a check: the word that is printed."""

    FINE = "ok"
    NOTE = "note"  # works, and somebody should know something
    FAILED = "FAILED"
    NOT_TRIED = "not tried"


class Found(NamedTuple):
    """What a check found, and the way out where there is one."""

    state: State
    text: str
    way_out: str = ""


def versions(_: float) -> Found:
    """Is everything there, in a version that works?"""
    jax = _version("jax")
    here = f"Python {platform.python_version()}, JAX {jax or 'not installed'}"
    if jax is None:
        return Found(State.NOTE, here, f"check, migrate and report work; for the rest: {_INSTALL}")
    if tuple(map(int, re.findall(r"\d+", jax)[:2])) < OLDEST_JAX:
        return Found(State.FAILED, here, "JAX 0.10 is the oldest that works: pip install -U jax")
    return Found(State.FINE, f"{here}, jaxlib {_version('jaxlib')}")


def settings(_: float) -> Found:
    """Settings of JAX in the environment, which programs here are going to meet."""
    ours = sorted(k for k in os.environ if k.startswith("JAX_") or k == "XLA_FLAGS")
    proxies = [name for name in _PROXIES if os.environ.get(name)]
    if proxies:
        way_out = "jax.distributed.initialize may hang with a proxy: unset it for jobs of many"
        return Found(State.NOTE, ", ".join([*proxies, *ours]), way_out)
    if ours:
        listed = ", ".join(f"{k}={os.environ[k]}" for k in ours)
        return Found(State.NOTE, listed, "the checks below, but for the devices, run without")
    return Found(State.FINE, "nothing in the environment changes what JAX does")


def rewriting(_: float) -> Found:
    """`check` and `migrate` on a program, in this process; no JAX is needed."""
    from shardlift.check.engine import Options, check_file
    from shardlift.cli.demo.steps import BEFORE, bundled
    from shardlift.migrate.engine import migrate
    from shardlift.source.project import Project
    from shardlift.source.text import read_source

    content = bundled()[BEFORE]
    project = Project([BEFORE], lambda path: read_source(path, content))
    findings = check_file(project, BEFORE, content, Options()).findings
    rewritten = migrate([BEFORE], lambda _: content, lambda _: False)
    (file,) = rewritten.files
    if not findings or not file.rewritten or file.refused or "jax.pmap" in file.after:
        return Found(
            State.FAILED, "the program of the demo is not rewritten", "reinstall shardlift"
        )
    return Found(State.FINE, f"{len(findings)} findings, {len(file.rewritten)} places rewritten")


def devices(timeout: float) -> Found:
    """What JAX finds, with the settings of the user."""
    code = (
        "import jax; d = jax.devices(); "
        "print(f'{len(d)} {d[0].platform}, {d[0].device_kind}, {jax.process_count()} process')"
    )
    env = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    return _tried(["-c", code], env, timeout, "JAX_PLATFORMS=cpu uses the processor")


def one_process(timeout: float) -> Found:
    """pmap and its neighbours on virtual devices."""
    arguments = ["-m", "shardlift.cli.doctor.one_process"]
    return _tried(arguments, plain_environment(8), timeout, "shardlift env, for a bug report")


def two_processes(timeout: float) -> Found:
    """Two real processes that talk to each other."""
    job = ["run", "--quiet", "--processes", "2", "--devices", "2"]
    job += ["--start-timeout", str(max(1, int(timeout / 2)))]
    arguments = ["-m", "shardlift", *job, "-m", "shardlift.cli.doctor.two_processes"]
    way_out = "processes talk over 127.0.0.1: is there a firewall, or a sandbox without it?"
    return _tried(arguments, plain_environment(None), timeout, way_out)


CHECKS: dict[str, Callable[[float], Found]] = {
    "versions": versions,
    "settings": settings,
    "check and migrate": rewriting,
    "devices": devices,
    "8 virtual devices": one_process,
    "2 processes": two_processes,
}


def _tried(arguments: Sequence[str], env: dict[str, str], timeout: float, way_out: str) -> Found:
    if _version("jax") is None:
        return Found(State.NOT_TRIED, "needs JAX")
    try:
        done = run_python(arguments, env, timeout=timeout)
    except subprocess.TimeoutExpired:
        return Found(State.FAILED, f"did not end in {timeout:.0f} s", way_out)
    lines = done.output.strip().splitlines() or [""]
    if done.status:
        return Found(State.FAILED, _last_error(lines) or f"exit status {done.status}", way_out)
    return Found(State.FINE, f"{lines[-1].removeprefix('[0] ').removeprefix('[1] ')}")


def _last_error(lines: list[str]) -> str:
    """The line that says what went wrong.

    >>> _last_error(["Traceback", "  File", "ValueError: no", "(set X to see more)"])
    'ValueError: no'
    """
    errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Interrupt)\b", line)]
    return (errors or lines)[-1]


def _version(name: str) -> str | None:
    if importlib.util.find_spec(name) is None:
        return None
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "of unknown version"
