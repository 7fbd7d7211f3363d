"""Library functions that always return exactly one array.

Functions that may return a tuple or a list (`slogdet`, `unique`, `modf`, `split`, `top_k`) are not
listed, nor those that call a function of the program (`piecewise`, `apply_along_axis`). A test
compares the tables with the annotations of the installed JAX.
"""

from __future__ import annotations

_NUMPY = """
abs absolute acos acosh add all allclose amax amin angle any append arange arccos arccosh arcsin
arcsinh arctan arctan2 arctanh argmax argmin argsort argwhere around array array_equal asarray asin
asinh astype atan atan2 atanh bincount bitwise_and bitwise_not bitwise_or bitwise_xor block
broadcast_to cbrt ceil clip column_stack concat concatenate conj conjugate convolve copysign
corrcoef correlate cos cosh count_nonzero cov cross cumprod cumsum deg2rad degrees diag diagflat
diff digitize divide dot dstack einsum empty empty_like equal exp exp2 expand_dims expm1 eye fabs
flip fliplr flipud float_power floor floor_divide fmax fmin fmod full full_like geomspace greater
greater_equal heaviside hstack hypot imag inner interp invert isclose isfinite isin isinf isnan
kron left_shift less less_equal log log10 log1p log2 logaddexp logaddexp2 logical_and logical_not
logical_or logical_xor logspace matmul matrix_transpose max maximum mean median min minimum mod
moveaxis multiply nan_to_num nanargmax nanargmin nanmax nanmean nanmedian nanmin nanprod nanstd
nansum nanvar negative not_equal ones ones_like outer pad percentile permute_dims polyval positive
pow power prod ptp quantile rad2deg radians ravel real reciprocal remainder repeat reshape
right_shift rint roll rot90 round searchsorted select sign signbit sin sinc sinh sort sqrt square
squeeze stack std subtract sum swapaxes take take_along_axis tan tanh tensordot tile trace
transpose trapezoid tri tril triu true_divide trunc var vdot vecdot vstack zeros zeros_like
bfloat16 bool_ complex64 complex128 float16 float32 float64 int8 int16 int32 int64 uint8 uint16
uint32
"""
_LINALG = """
cholesky cond cross det eigvals eigvalsh inv matmul matrix_norm matrix_power matrix_rank multi_dot
norm outer pinv solve svdvals tensordot trace vecdot vector_norm
"""
_NN = """
celu elu gelu glu hard_sigmoid hard_silu hard_swish hard_tanh leaky_relu log_sigmoid log_softmax
one_hot relu relu6 selu sigmoid silu soft_sign softmax softplus standardize swish tanh
"""
_RANDOM = """
PRNGKey bernoulli beta bits categorical cauchy choice dirichlet exponential fold_in gamma gumbel
key key_data laplace logistic multivariate_normal normal permutation poisson rademacher randint
split truncated_normal uniform
"""
_LAX = """
abs add argmax argmin axis_index batch_matmul broadcast broadcast_in_dim clamp concatenate conv
conv_general_dilated conv_transpose convert_element_type cos cumsum div dot dot_general
dynamic_index_in_dim dynamic_slice dynamic_slice_in_dim dynamic_update_index_in_dim
dynamic_update_slice dynamic_update_slice_in_dim eq erf exp expand_dims floor full full_like ge gt
iota le log log1p logistic lt max min mul ne neg pad pow reshape rev rsqrt select sign sin slice
slice_in_dim sqrt square squeeze sub tanh transpose
"""
_SPECIAL = "betaln digamma entr erf erfc erfinv expit gammaln log_ndtr logit ndtr xlog1py xlogy"
_FFT = "fft fft2 fftn fftshift ifft ifft2 ifftn ifftshift irfft irfft2 irfftn rfft rfft2 rfftn"
# optax annotates these with one array (0.2).
_OPTAX = """
global_norm hinge_loss huber_loss l2_loss log_cosh sigmoid_binary_cross_entropy
softmax_cross_entropy softmax_cross_entropy_with_integer_labels squared_error
"""
MODULES = {
    "jax.numpy": _NUMPY,
    "jax.numpy.linalg": _LINALG,
    "jax.nn": _NN,
    "jax.random": _RANDOM,
    "jax.lax": _LAX,
    "jax.scipy.special": _SPECIAL,
    "jax.numpy.fft": _FFT,
    "optax": _OPTAX,
}
ARRAYS = frozenset(
    f"{module}.{name}" for module, names in MODULES.items() for name in names.split()
) | {"builtins.float"}
FLOATS = frozenset(f"{m}.{n}" for m in ("jax.numpy", "numpy", "math") for n in ("pi", "e", "inf"))
# Functions of numpy and Python that return one array or number, perhaps an int.
NUMBERS = frozenset(
    f"numpy.{name}"
    for name in (
        "arange", "array", "asarray", "broadcast_to", "empty", "eye", "full", "ones",
        "ones_like", "random.normal", "random.rand", "random.randn", "random.uniform", "reshape",
        "stack", "zeros", "zeros_like",
    )
) | {"builtins.abs", "builtins.bool", "builtins.int", "builtins.len", "builtins.round"}  # fmt: skip

# Functions that return one array unless an argument asks for more: the fewest and the most
# positional arguments for which they do, and the keyword that asks for more.
ARRAYS_UNLESS = {
    "jax.numpy.average": (1, 3, "returned"),
    "jax.numpy.linspace": (2, 4, "retstep"),
    "jax.numpy.where": (3, 3, ""),
    "jax.numpy.atleast_1d": (1, 1, ""),
    "jax.numpy.atleast_2d": (1, 1, ""),
    "jax.nn.logsumexp": (1, 4, "return_sign"),
    "jax.scipy.special.logsumexp": (1, 4, "return_sign"),
}
# Functions whose result has the structure of the argument at this position.
LIKE_ARGUMENT = {
    **{
        f"jax.lax.{name}": 0
        for name in (
            "psum", "pmean", "pmax", "pmin", "all_gather", "psum_scatter", "ppermute", "pshuffle",
            "pswapaxes", "all_to_all", "stop_gradient", "pvary", "pcast",
        )
    },
    "jax.lax.while_loop": 2,
    "jax.lax.fori_loop": 3,
    "jax.device_put": 0,
    "jax.device_get": 0,
    "jax.block_until_ready": 0,
}  # fmt: skip
# Methods and attributes of a JAX array that are one array, including `x.at[0].set(1)`.
_METHODS = """
add all any apply argmax argmin astype clip conj conjugate copy cumprod cumsum diagonal divide dot
flatten get max mean min multiply power prod ptp ravel repeat reshape round set squeeze std sum
swapaxes take trace transpose var
"""
METHODS = frozenset(_METHODS.split())
ATTRIBUTES = frozenset({"T", "at", "imag", "mT", "real"})
