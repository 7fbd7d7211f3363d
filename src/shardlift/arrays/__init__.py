"""Placing arrays on devices and reading them back."""
