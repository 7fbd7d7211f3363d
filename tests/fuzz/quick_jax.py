"""JAX for generators that run thousands of programs in one process: most time is compilation."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from importlib import metadata


def set_up(devices: int) -> None:
    """Set what JAX reads when it is imported: call this before."""
    folder = tempfile.mkdtemp(prefix="shardlift-fuzz-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ |= _quick_emitters() | {
        "JAX_PLATFORMS": "cpu",
        "JAX_NUM_CPU_DEVICES": str(devices),
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
        "JAX_COMPILATION_CACHE_DIR": folder,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }


def _quick_emitters() -> dict[str, str]:
    """XLA's emitters that compile small programs 1.7 times as fast, and large ones far slower.

    Empty with a jaxlib that has only one set of emitters: it ends at a flag it does not know.
    """
    if not metadata.version("jaxlib").startswith("0.10."):
        return {}
    flags = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
    return {"XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip()}
