"""The two texts of `spmd_map`, with all parameters: `spmd_map.py` leaves out what no site uses."""
