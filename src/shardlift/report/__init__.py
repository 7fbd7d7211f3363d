"""A capture, shown: in a terminal, as one HTML page, as Markdown, as JSON. Needs no JAX."""
