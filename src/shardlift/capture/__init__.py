"""The capture: its schema, reading, writing and merging. Pure data, no JAX."""
