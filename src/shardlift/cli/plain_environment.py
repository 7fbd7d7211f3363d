"""The environment of programs that a command starts for itself: without settings of JAX."""

import os

from shardlift.launch.program import virtual_devices


def plain_environment(devices: int | None) -> dict[str, str]:
    """The environment without settings of JAX; with virtual CPU devices if a number is given."""
    current = os.environ.items()
    env = {k: v for k, v in current if not k.startswith("JAX_") and k != "XLA_FLAGS"}
    if devices is not None:
        virtual_devices(devices, env)
    return env | {"PYTHONIOENCODING": "utf-8", "PYTHONUNBUFFERED": "1"}
