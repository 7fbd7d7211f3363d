"""The environment of both programs: the same devices, hash seed and operations."""

import glob
import importlib.util
import os
from collections.abc import Mapping

from shardlift.launch.program import virtual_devices

DEVICES = 8
# Two processes of the GPU compiler choose other algorithms, and add up in another order.
DETERMINISTIC = "--xla_gpu_deterministic_ops=true"


def environment(
    devices: int | None, environ: Mapping[str, str], processes: int = 1
) -> dict[str, str]:
    """The environment of a program that is compared with another one."""
    # No bytecode is written, because `migrate --verify` may restore the source afterwards.
    env = {**environ, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    is_set = "JAX_NUM_CPU_DEVICES" in environ or environ.get("JAX_PLATFORMS", "cpu") != "cpu"
    is_set = is_set or "host_platform_device_count" in environ.get("XLA_FLAGS", "")
    on_cpu = "JAX_PLATFORMS" in environ or not has_accelerator()
    if devices is None and not is_set and on_cpu:
        devices = max(DEVICES // processes, 1)
    if devices is not None:
        virtual_devices(devices, env)
    if is_made_deterministic(env):
        env["XLA_FLAGS"] = f"{env.get('XLA_FLAGS', '')} {DETERMINISTIC}".strip()
    return env


def is_made_deterministic(environ: Mapping[str, str]) -> bool:
    """Whether a program may use a GPU, and does not choose for itself how it computes there."""
    platforms = environ.get("JAX_PLATFORMS", "")
    on_gpu = any(name in platforms for name in ("cuda", "gpu", "rocm"))
    on_gpu = on_gpu or (not platforms and has_accelerator())
    return on_gpu and "xla_gpu_deterministic_ops" not in environ.get("XLA_FLAGS", "")


def has_accelerator() -> bool:
    """Whether there is an accelerator and a JAX plugin for it. Does not start JAX."""
    nodes = [*glob.glob("/dev/nvidia[0-9]*"), *glob.glob("/dev/accel[0-9]*"), "/dev/kfd"]
    plugins = ("jax_plugins", "libtpu")
    return any(map(os.path.exists, nodes)) and any(
        importlib.util.find_spec(name) is not None for name in plugins
    )
