"""The two texts of `spmd_map`: one of them is written, without donation if no site donates."""
