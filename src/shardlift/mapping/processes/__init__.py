"""Pmapped calls in a job of many processes."""
