"""What all workers of one run of the tests share: a folder, and results that one has computed."""

import fcntl
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOLDER = "TESTS_SHARED_FOLDER"  # an environment variable; set by `conftest.py`


def once(name: str, compute: Callable[[], Any]) -> Any:
    """What ``compute`` returns, as JSON keeps it; one worker computes it, the others read it.

    For fixtures of a module whose tests several workers run.
    """
    folder = Path(os.environ[FOLDER])
    result = folder / f"{name}.json"
    with open(folder / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not result.exists():
            result.write_text(json.dumps(compute()))
    return json.loads(result.read_text())


def compilation_cache() -> dict[str, str]:
    """Settings of JAX with which tests, and the programs they start, compile everything once.

    A file is not written at once (jax 0.10.2 and 0.12.0): who reads half of it compiles, too, after
    a warning, which pyproject.toml lets pass.
    """
    return {
        "JAX_COMPILATION_CACHE_DIR": str(Path(os.environ[FOLDER]) / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
