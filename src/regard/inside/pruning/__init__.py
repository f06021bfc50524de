"""Pruning of attention heads: orders of removal, curves, gates, and smaller models."""
