"""Comparison of two captures: sites are paired, then calls, then leaves. No JAX here."""
