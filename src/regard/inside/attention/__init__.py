"""Attention of a model on one input: recorded, measured and shown."""
