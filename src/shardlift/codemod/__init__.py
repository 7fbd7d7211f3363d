"""`check` and `migrate`: parsing, names and aliases, one file a rule, edits. No JAX is imported."""
