"""Optimisers, learning-rate schedules and groups of layers."""
