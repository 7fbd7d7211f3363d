"""Observing a running program: its pmapped calls, compilations, moves and reads."""
