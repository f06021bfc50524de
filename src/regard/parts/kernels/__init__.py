"""Kernels that compute ``attend`` faster, one file each, with one interface: ``fits`` and ``run``.

They take dot-product scores under window masks only; ``attend`` computes the rest.
"""
