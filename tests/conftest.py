"""Eight virtual CPU devices and strict dtype promotion, set before JAX is imported."""

from __future__ import annotations

import os

os.environ.update(JAX_NUM_CPU_DEVICES="8", JAX_PLATFORMS="cpu", JAX_NUMPY_DTYPE_PROMOTION="strict")
