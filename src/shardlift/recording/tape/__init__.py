"""The tape: inputs and outputs of every call, and results of collectives.

=================  =========================================================================
`options`          what is kept
`tape`             digests and values of arrays, within bounds
`reference_run`    inputs of the other program, for calls that are run again
`taped_calls`      puts the calls of mapped functions on tape
`host_arrays`      arrays of a call, read by the host
`taps`             results of the collectives inside a call
`result_uses`      what the rest of the program makes of these results
`children`         processes that the program starts
=================  =========================================================================
"""
