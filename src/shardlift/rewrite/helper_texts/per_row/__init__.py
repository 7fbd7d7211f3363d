"""The two texts of `per_row`: a file has one of them, for all of its sites."""
