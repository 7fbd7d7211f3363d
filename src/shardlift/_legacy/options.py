"""Removed options of ``jax.config``: they can be set, read and given as flags without an error.

Their values have no effect: what they switched on is either the only way now (``jax_array``), or
restored by this package (``jax_pmap_shmap_merge``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import jax

from shardlift import _compat
from shardlift._legacy.patches import Patches
from shardlift._legacy.uses import Uses

__all__ = ["OPTIONS", "restore"]

# Option -> its default. The comment is the release that removed it.
OPTIONS: dict[str, Any] = {
    "jax_pmap_shmap_merge": False,  # 0.10
    "jax_pmap_no_rank_reduction": True,  # 0.9
    "jax_array": True,  # 0.4.14
    "jax_jit_pjit_api_merge": True,  # 0.4.14
    "jax_parallel_functions_output_gda": False,  # 0.4.26
    "jax_eager_pmap": True,  # 0.6
    "jax_spmd_mode": "allow_jit",  # 0.6
    "jax_coordination_service": True,  # 0.4.16
    "jax_enable_memories": True,  # 0.5
    "jax_omnistaging": True,  # 0.4
    "jax_experimental_name_stack": True,  # 0.4
    "jax_experimental_subjaxpr_lowering_cache": False,  # 0.4.2
    "jax_enable_mlir": True,  # 0.3.15
    "jax_cpu_backend_variant": "tfrt",  # 0.3
    "jax_host_callback_ad_transforms": False,  # 0.4.14
    "jax_host_callback_inline": False,  # 0.4.31
    "jax_host_callback_outfeed": False,  # 0.4.31
    "jax_host_callback_legacy": True,  # 0.4.31
    "jax_host_callback_max_queue_byte_size": 256_000_000,  # 0.4.31
    "jax_cuda_visible_devices": "all",  # 0.4.14, now jax_cuda_visible_devices of the plugin
    "jax_iree_backend": "cpu",  # 0.4.14
    "jax_require_devices_during_lowering": True,  # 0.4.24
    "jax_remat_opt_barrier": True,  # 0.6
    "jax_dynamic_shapes": False,  # 0.8
    "jax_sharding_in_types": False,  # 0.5
    "jax_share_autotune_config_between_hosts": False,  # 0.5
    "jax_data_dependent_tracing_fallback": False,  # 0.6
    "jax_cpu_enable_gloo_collectives": False,  # 0.8, now jax_cpu_collectives_implementation
    "jax_custom_vjp_disable_shape_check": False,  # 0.8
    "jax_enable_empty_arrays": False,  # 0.7
    "jax_experimental_unsafe_xla_runtime_errors": False,  # 0.7
    "jax_vjp3": False,  # 0.8
    "jax_safer_randint": True,  # 0.9
    "jax_collectives_common_channel_id": True,  # 0.9
    "jax_default_dtype_bits": "_default",  # 0.10
    "jax_enable_custom_vjp_by_custom_transpose": False,  # 0.10
}


class Option:
    """A removed option, as ``jax.config`` holds it."""

    def __init__(self, name: str, value: Any, note: Callable[[], None]) -> None:
        """``note`` is called when the option is set or read."""
        self.name, self.note, self.set_to = name, note, value

    @property
    def value(self) -> Any:
        """The value."""
        return self.set_to

    def read(self) -> Any:
        """The value, for a program; the read is noted."""
        self.note()
        return self.set_to

    def _set(self, value: Any) -> None:
        self.note()
        self.set_to = value


def restore(patches: Patches, uses: Uses, environ: Mapping[str, str] = os.environ) -> None:
    """Restore the options, with the values of their environment variables."""
    _restore_definitions(patches, uses)
    for name, value in OPTIONS.items():
        note = uses.counter(f"jax.config.{name}")
        variable = environ.get(name.upper())
        if variable is not None:
            uses.note(f"{name.upper()} (environment)")
            value = variable if isinstance(value, str) else _is_true(variable)
        if hasattr(jax.config, name):  # this JAX has it still
            continue
        _compat.add_option(patches.set, patches.item, Option(name, value, note))


def _restore_definitions(patches: Patches, uses: Uses) -> None:
    """``jax.config.define_bool_state`` and its family (until 0.4.26), omnistaging, ``FLAGS``."""
    config = type(jax.config)
    for old, define in _compat.option_makers().items():
        noted = _noting(define, uses.counter(f"jax.config.{old}"))
        patches.set(config, old, staticmethod(noted))
    for name in ("enable_omnistaging", "disable_omnistaging"):  # always on since 0.2
        patches.set(config, name, staticmethod(uses.counter(f"jax.config.{name}")))
    patches.set(config, "omnistaging_enabled", True)
    patches.set(config, "x64_enabled", property(lambda self: self.jax_enable_x64))
    for name in ("config", "FLAGS"):  # both read options as attributes
        patches.set(config, name, property(lambda self: self))


def _noting(define: Callable[..., Any], note: Callable[[], None]) -> Callable[..., Any]:
    def noted(*args: Any, **kwargs: Any) -> Any:
        note()
        return define(*args, **kwargs)

    return noted


def _is_true(text: str) -> bool:
    return text.lower() in ("y", "yes", "t", "true", "on", "1")
