"""Searches as trees: every candidate of every step, and why it was kept or pruned."""
