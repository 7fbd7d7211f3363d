"""The plain primitives: functions of their operands and of nothing else.

The names below were checked one by one (2026-11: jax 0.10.2, 0.12.0). A primitive that is neither
here nor has a rule is unknown, and its outputs are not proven: a primitive of a later JAX makes the
proof weaker, never wrong.

Plain means that the same program on equal operands gives equal bits on devices of one kind. XLA
promises it for everything except scatters, and some convolutions and reductions on GPUs, which may
run in any order unless ``--xla_gpu_deterministic_ops`` is set.
"""

from __future__ import annotations

import sys
from typing import Any

# Now: imported in the middle of a run, it makes JAX trace every program once more (0.12.0).
from jax.extend.core import Primitive

_ELEMENTWISE = """
abs acos acosh add add_any and asin asinh atan atan2 atanh bessel_i0e bessel_i1e
bitcast_convert_type cbrt ceil clamp clz complex conj convert_element_type copy cos cosh digamma
div eq eq_to erf erf_inv erfc exp exp2 expm1 floor ge gt igamma igamma_grad_a igammac imag
integer_pow is_finite le le_to lgamma log log1p log2 logistic lt lt_to max min mul mulhi ne neg
nextafter not one_minus_square or polygamma polynomial population_count pow real reduce_precision
regularized_incomplete_beta rem round rsqrt select_n shift_left shift_right_arithmetic
shift_right_logical sign sin sinh sqrt square stop_gradient sub tan tanh xor zeta
"""
_SHAPES = """
broadcast_in_dim concatenate dynamic_slice dynamic_update_slice from_edtype gather iota
pad reshape rev slice split squeeze stack tile to_edtype transpose unstack zeros_like
"""
_REDUCTIONS = """
approx_top_k argmax argmin conv_general_dilated cumlogsumexp cummax cummin cumprod cumsum
dot_general fft ragged_dot_general reduce_and reduce_max reduce_min reduce_or reduce_prod
reduce_sum reduce_window_max reduce_window_min reduce_window_sum reduce_xor scaled_dot
select_and_gather_add select_and_scatter_add sort top_k
"""
_LINEAR_ALGEBRA = """
cholesky cholesky_update eig eigh geqp3 geqrf hessenberg householder_product lu
lu_pivots_to_permutation ormqr qr schur svd symmetric_product triangular_solve tridiagonal
tridiagonal_solve
"""
# Counter-based: the bits are a function of the key.
_RANDOM = """
iota_2x32_shape philox2x32 philox4x32 random_bits random_clone random_fold_in random_gamma
random_seed random_split random_unwrap random_wrap rng_bit_generator threefry2x32 threefry4x32
"""
# They inform the compiler or a transformation, and do not change the value.
_MARKS = """
after_all create_token device_put layout_constraint name optimization_barrier platform_index
pvary reshard sharding_constraint stage tie with_memory_space_constraint xla_metadata_value
"""

PLAIN = frozenset(
    " ".join((_ELEMENTWISE, _SHAPES, _REDUCTIONS, _LINEAR_ALGEBRA, _RANDOM, _MARKS)).split()
)

# Plain if the functions that they hold are made of plain primitives.
_FUNCTIONS = """
custom_linear_solve reduce reduce_window scatter scatter-add scatter-max scatter-min
scatter-mul scatter-sub select_and_scatter
"""
WITH_FUNCTION = frozenset(_FUNCTIONS.split())

# They may also use these.
IN_FUNCTIONS = PLAIN | WITH_FUNCTION | {"cond", "jit", "scan", "while"}

# Why the outputs of these are not proven.
_CALLBACK = "runs Python on the host, once per device"
_REF = "reads a mutable reference, whose content is not tracked"
_MEMORY = "is uninitialised memory"
OPAQUE = {
    "pure_callback": _CALLBACK,
    "io_callback": _CALLBACK,
    "empty": _MEMORY,
    "empty2": _MEMORY,
    "rng_uniform": "draws from the device's own generator",
    "ffi_call": "runs foreign code, which may depend on the device",
    "pallas_call": "runs a kernel, which is not analysed",
    "get": _REF,
    "swap": _REF,
    "new_ref": _REF,
    "ragged_all_to_all": "gives each device a different part",
}


_owned: dict[str, set[Any]] = {}  # primitives that modules of JAX hold, by name
_modules: set[str] = set()  # the modules that were looked at


def is_jax_primitive(primitive: Any) -> bool:
    """Is it JAX's own? Not if it only has the name of one.

    A primitive of JAX is an attribute of the module that made it. Few of these are public, and some
    modules are imported late.
    """
    if primitive not in _owned.get(primitive.name, ()):
        _look_for_primitives()
    return primitive in _owned.get(primitive.name, ())


def _look_for_primitives() -> None:
    for name, module in list(sys.modules.items()):
        if name not in _modules and (name == "jax" or name.startswith("jax.")):
            _modules.add(name)
            for value in list(vars(module).values()):
                if isinstance(value, Primitive):
                    _owned.setdefault(value.name, set()).add(value)
