"""Kernels that compute ``attend`` faster, one file each, with one interface: ``fits`` and ``run``.

They support dot-product scores with window masks only; ``attend`` computes all others.
"""
