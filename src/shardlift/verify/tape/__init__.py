"""Running a program with every call on tape: what went in, what came out, what was exchanged.

=================  =========================================================================
`host_arrays`      arrays of a call, read by the host
`site_tape`        what is kept of the calls, within bounds
`hooks`            pmap, jit and shard_map whose calls are put on tape
`taps`             operands and results of the collectives inside a call
`reference_run`    the inputs of the other program, given to this one
`swapping`         two arguments in each other's place, tried
`oracles`          what stands in for a pmap that this JAX does not have
`both`             the tape together with the facts of a run
`child`            the process in which a program runs
=================  =========================================================================
"""
