"""`migrate --to jit`: a data-parallel step as `jax.jit` over the whole batch, without collectives.

Under pmap, a step sees the rows of its device and combines means of them by `pmean`. The same text
without the `pmean`, on all rows, computes the mean over all rows: the same number but for rounding,
if each device has as many rows. That holds only if nothing in between depends on which rows are
together, so each value in the step has to be understood.

kinds      what a value on one device has to do with the value over the whole batch
functions  what functions of libraries do to the kinds of their arguments
values     what the steps of `body` compute with: kinds, trees of them, functions
body       a step, followed with the kinds of its values
statements, expressions, calls   one function per type of node
opaque     whether code that is not followed could tell the devices apart
rewrites   which sites are rewritten, and the edits
"""
