"""Functions of libraries, by what they do to the kinds of their arguments.

A function is listed only if what it does to a row does not depend on the other rows. What is not
listed may be given values that are the same on all devices, and nothing else.
"""

from __future__ import annotations

import ast


def _of(module: str, names: str) -> frozenset[str]:
    return frozenset(f"{module}.{name}" for name in names.split())


_NUMPY = """
abs absolute arccos arcsin arctan arctan2 arctanh bitwise_and bitwise_or cbrt ceil clip cos cosh
equal exp exp2 expm1 fabs float_power floor floor_divide fmax fmin full_like greater greater_equal
isfinite isinf isnan less less_equal log log10 log1p log2 logaddexp logical_and logical_not
logical_or logical_xor maximum minimum mod nan_to_num not_equal ones_like power reciprocal
remainder rint round sign sin sinh sqrt square tan tanh trunc where zeros_like
"""
_NN = """
celu elu gelu hard_sigmoid hard_silu hard_swish hard_tanh leaky_relu log_sigmoid relu relu6 selu
sigmoid silu soft_sign softplus swish tanh
"""
_LAX = """
abs ceil cos erf exp exp2 expm1 floor log log1p logistic max min pow rsqrt sin sqrt square tanh
"""
_OPTAX = """
hinge_loss huber_loss l2_loss log_cosh sigmoid_binary_cross_entropy softmax_cross_entropy
softmax_cross_entropy_with_integer_labels squared_error
"""
# Each element, or each row, on its own.
ROWWISE = (
    _of("jax.numpy", _NUMPY)
    | _of("jax.nn", _NN)
    | _of("jax.lax", _LAX)
    | _of("optax", _OPTAX)
    | _of("optax.losses", _OPTAX)
    | _of("jax.scipy.special", "entr erf erfc expit gammaln log_ndtr logit ndtr xlog1py xlogy")
)
# Along one axis, by default the last.
LAST_AXIS = _of("jax.nn", "glu log_softmax one_hot softmax standardize")
# Along one axis, by default all of them.
ALONG = _of(
    "jax.numpy", "all amax amin any argmax argmin argsort cumsum max median min prod sort std var"
) | {"jax.scipy.special.logsumexp", "jax.nn.logsumexp", "jax.numpy.linalg.norm"}
MEANS = frozenset({"jax.numpy.mean", "jax.numpy.average"})
SUMS = frozenset({"jax.numpy.sum"})
PRODUCTS = frozenset({"jax.numpy.matmul", "jax.numpy.dot"})
JOINING = _of("jax.numpy", "concatenate stack")
# As the operators; these are linear, so that means and sums may be given to them.
OPERATORS: dict[str, ast.operator] = {
    "jax.numpy.add": ast.Add(),
    "jax.numpy.subtract": ast.Sub(),
    "jax.numpy.multiply": ast.Mult(),
    "jax.numpy.divide": ast.Div(),
    "jax.numpy.true_divide": ast.Div(),
}
# These return their first argument, in another form or type.
UNCHANGED = frozenset(
    {"jax.lax.stop_gradient", "jax.numpy.asarray", "jax.numpy.negative", "jax.numpy.float32",
     "jax.numpy.float64", "builtins.dict", "jax.numpy.copy", "jax.block_until_ready"}
)  # fmt: skip
# These return a function that computes the same as the one that they are given.
SAME_FUNCTION = frozenset(
    {"jax.jit", "jax.checkpoint", "jax.remat", "jax.named_call", "jax.ad_checkpoint.checkpoint"}
)
GRADIENTS = {"jax.grad": False, "jax.value_and_grad": True}  # whether the value is returned, too
FLOAT_TYPES = _of("jax.numpy", "float16 float32 float64 bfloat16") | _of("numpy", "float32 float64")
# What only code on several devices can call. The first two are what data parallelism needs.
PMEAN, PSUM = "jax.lax.pmean", "jax.lax.psum"
COLLECTIVES = _of(
    "jax.lax",
    "pmean psum pmax pmin all_gather all_to_all axis_index axis_size pbroadcast pcast pdot "
    "ppermute pshuffle psum_scatter pswapaxes pvary",
)
