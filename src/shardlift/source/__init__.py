"""Reading Python and notebooks: scopes, names, values, pmap sites. No JAX is imported."""
