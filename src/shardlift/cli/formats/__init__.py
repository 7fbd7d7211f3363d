"""Output formats of `check` and `migrate`, one per module: a report in, text out."""
