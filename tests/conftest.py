"""Eight virtual CPU devices and strict dtype promotion, set before JAX is imported."""

from __future__ import annotations

import os
import signal
import threading

# A job in the background of a shell ignores Ctrl-C, and so would every program that a test starts.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ.pop("COLUMNS", None)  # what is printed must not depend on the terminal
os.environ.update(JAX_NUM_CPU_DEVICES="8", JAX_PLATFORMS="cpu", JAX_NUMPY_DTYPE_PROMOTION="strict")
