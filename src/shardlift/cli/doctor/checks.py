"""The checks of `doctor`, one function each. What can hang or crash runs in a child process."""

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
from shardlift.cli.doctor.support import installed_here, unsupported
from shardlift.cli.needs_jax import OLDEST
from shardlift.source.model import version

__all__ = ["CHECKS", "Result", "State"]

_INSTALL = 'pip install "shardlift[jax]"'
_PROXIES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")


class State(Enum):
    """The outcome of a check, with the word that is printed."""

    FINE = "ok"
    NOTE = "note"  # works, but the user should know something
    FAILED = "FAILED"
    NOT_RUN = "not run"


class Result(NamedTuple):
    """The result of a check, and the way out if it failed."""

    state: State
    text: str
    way_out: str = ""


def versions(_: float) -> Result:
    """The versions of Python and JAX."""
    jax = _version("jax")
    here = f"Python {platform.python_version()}, JAX {jax or 'not installed'}"
    if jax is None:
        return Result(
            State.NOTE, here, f"only check, migrate and report work; for the others: {_INSTALL}"
        )
    if _is_older(jax, OLDEST):
        return Result(State.FAILED, here, "JAX 0.10 or newer is needed: pip install -U jax")
    here = f"{here}, jaxlib {_version('jaxlib')}"
    problems = list(unsupported(installed_here(_version)))
    return Result(State.NOTE if problems else State.FINE, here, "; ".join(problems))


def settings(_: float) -> Result:
    """Settings in the environment that change what JAX does."""
    names = sorted(k for k in os.environ if k.startswith("JAX_") or k == "XLA_FLAGS")
    proxies = [name for name in _PROXIES if os.environ.get(name)]
    if proxies:
        way_out = "jax.distributed.initialize may hang with a proxy: unset it for several processes"
        return Result(State.NOTE, ", ".join([*proxies, *names]), way_out)
    if names:
        listed = ", ".join(f"{name}={os.environ[name]}" for name in names)
        return Result(State.NOTE, listed, "all checks below except `devices` ignore these")
    return Result(State.FINE, "no settings in the environment")


def rewriting(_: float) -> Result:
    """`check` and `migrate` on the program of the demo; needs no JAX."""
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
        return Result(
            State.FAILED, "the program of the demo was not rewritten", "reinstall shardlift"
        )
    return Result(State.FINE, f"{len(findings)} findings, {len(file.rewritten)} places rewritten")


def devices(timeout: float) -> Result:
    """The devices that JAX finds with the settings of the user."""
    code = (
        "import jax; d = jax.devices(); "
        "print(f'{len(d)} {d[0].platform}, {d[0].device_kind}, {jax.process_count()} process')"
    )
    env = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    return _run(["-c", code], env, timeout, "JAX_PLATFORMS=cpu uses the CPU")


def one_process(timeout: float) -> Result:
    """pmap and related functions on virtual devices."""
    arguments = ["-m", "shardlift.cli.doctor.one_process"]
    return _run(
        arguments,
        plain_environment(8),
        timeout,
        "please report it, with the output of `shardlift env`",
    )


def two_processes(timeout: float) -> Result:
    """Two processes that communicate."""
    job = ["run", "--quiet", "--processes", "2", "--devices", "2"]
    job += ["--start-timeout", str(max(1, int(timeout / 2)))]
    arguments = ["-m", "shardlift", *job, "-m", "shardlift.cli.doctor.two_processes"]
    way_out = "processes communicate over 127.0.0.1: does a firewall or a sandbox block it?"
    return _run(arguments, plain_environment(None), timeout, way_out)


CHECKS: dict[str, Callable[[float], Result]] = {
    "versions": versions,
    "settings": settings,
    "check and migrate": rewriting,
    "devices": devices,
    "8 virtual devices": one_process,
    "2 processes": two_processes,
}


def _run(arguments: Sequence[str], env: dict[str, str], timeout: float, way_out: str) -> Result:
    if _version("jax") is None:
        return Result(State.NOT_RUN, "needs JAX")
    try:
        done = run_python(arguments, env, timeout=timeout)
    except subprocess.TimeoutExpired:
        return Result(State.FAILED, f"did not finish within {timeout:.0f} s", way_out)
    lines = done.output.strip().splitlines() or [""]
    if done.status:
        return Result(State.FAILED, _last_error(lines) or f"exit status {done.status}", way_out)
    return Result(State.FINE, f"{lines[-1].removeprefix('[0] ').removeprefix('[1] ')}")


def _last_error(lines: list[str]) -> str:
    """The line that names the error.

    >>> _last_error(["Traceback", "  File", "ValueError: no", "(set X to see more)"])
    'ValueError: no'
    """
    errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Interrupt)\b", line)]
    return (errors or lines)[-1]


def _is_older(text: str, oldest: tuple[int, ...]) -> bool:
    try:
        return version(text) < oldest
    except ValueError:
        return False


def _version(name: str) -> str | None:
    if importlib.util.find_spec(name) is None:
        return None
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "(unknown version)"
