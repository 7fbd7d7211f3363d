"""The formats of `check`, one a file: a report in, text out."""
