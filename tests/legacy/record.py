"""Record what the legacy programs compute on the JAX they were written for, 0.7.2.

    python3.11 -m venv old && old/bin/pip install jax==0.7.2 numpy
    old/bin/python tests/legacy/record.py

Run it with that Python, on CPU; it writes tests/legacy/recorded/. Names of programs as
arguments record only those.
"""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAMS = sorted(p for p in (HERE / "programs").glob("*.py") if p.stem != "processes")


def main(names):
    """Record all, or those named."""
    import jax

    assert jax.__version__ == "0.7.2", jax.__version__
    out = HERE / "recorded"
    out.mkdir(exist_ok=True)
    wanted = [str(p) for p in PROGRAMS if not names or p.stem in names]
    one(out, wanted)
    if not names or "processes" in names:
        two(out)
    errors = sorted(out.glob("*.error"))
    for error in errors:
        print(error.stem, error.read_text())
        error.unlink()
    print(f"{len(wanted) - len(errors)} recorded, {len(errors)} failed")
    return 1 if errors else 0


def one(out, programs):
    """Eight devices in one process."""
    env = dict(os.environ, JAX_NUM_CPU_DEVICES="8", JAX_PLATFORMS="cpu")
    subprocess.run(
        [sys.executable, HERE / "together.py", out, *programs], env=env, check=True, timeout=900
    )


def two(out):
    """Two processes of two devices each."""
    env = dict(os.environ, JAX_NUM_CPU_DEVICES="2", JAX_PLATFORMS="cpu")
    env["JAX_CPU_COLLECTIVES_IMPLEMENTATION"] = "gloo"
    command = [sys.executable, HERE / "programs" / "processes.py", "--coordinator"]
    command += ["127.0.0.1:29511", "--count", "2", "--out", out / "processes.json", "--id"]
    jobs = [subprocess.Popen([*command, str(k)], env=env) for k in range(2)]
    statuses = [job.wait(300) for job in jobs]
    if any(statuses):
        raise SystemExit("the two processes failed")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
