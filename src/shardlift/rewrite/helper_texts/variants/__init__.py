"""Smaller texts of a helper, for files that need no more of it."""
