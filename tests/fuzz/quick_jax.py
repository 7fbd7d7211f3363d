"""JAX for generators that run thousands of programs in one process: most time is compilation."""

import atexit
import os
import shutil
import tempfile


def set_up(devices: int) -> None:
    """Set what JAX reads when it is imported: call this before."""
    folder = tempfile.mkdtemp(prefix="shardlift-fuzz-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ |= {
        "JAX_PLATFORMS": "cpu",
        "JAX_NUM_CPU_DEVICES": str(devices),
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
        "JAX_COMPILATION_CACHE_DIR": folder,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
