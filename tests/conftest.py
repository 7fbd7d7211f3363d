"""The suite runs on 8 virtual CPU devices, and nothing may rely on implicit promotion."""

from __future__ import annotations

import os

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["JAX_NUM_CPU_DEVICES"] = "8"

import jax

jax.config.update("jax_numpy_dtype_promotion", "strict")
