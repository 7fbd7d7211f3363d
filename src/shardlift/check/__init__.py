"""`shardlift check`: the rules, one file each, and their engine. No JAX is imported."""
