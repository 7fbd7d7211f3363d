"""The tape: inputs and outputs of every call, and results of collectives."""
