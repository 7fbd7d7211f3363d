"""The functions that `migrate` writes into a package, as they are written there.

Each file is plain JAX and is never imported here: `helpers.py` reads its text. Every function at
its top level is a helper; what it needs (imports, other functions) is found by the names it says.
"""
