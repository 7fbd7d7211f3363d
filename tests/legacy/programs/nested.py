"""A pmap in a pmap: hosts by cores, with sums over either axis and over both."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


@functools.partial(jax.pmap, axis_name="rows")
def outer(matrix, scale):
    @functools.partial(jax.pmap, axis_name="cols", in_axes=(0, None))
    def inner(x, s):
        row = lax.psum(x, "cols")
        col = lax.psum(x, "rows")
        both = lax.psum(x, ("rows", "cols"))
        shifted = lax.ppermute(x, "cols", [(0, 1), (1, 2), (2, 3), (3, 0)])
        return {"row": row, "col": col, "both": both, "next": shifted * s}

    out = inner(matrix, scale)
    return out, lax.pmean(out["next"].sum(), "rows")


def main():
    matrix = np.arange(2 * 4 * 3, dtype=np.float32).reshape(2, 4, 3)
    scale = np.array([2.0, 3.0], np.float32)
    out, mean = outer(matrix, scale)
    again, _ = outer(out["next"], scale)
    gradient = jax.grad(lambda m: jax.pmap(lambda r: (r**2).sum())(m).sum())(jnp.asarray(matrix))
    return {**out, "mean": mean, "again": again["both"], "one": out["row"][1], "gradient": gradient}


if __name__ == "__main__":
    RESULTS = main()
