"""Families of tokenizers, a file each: how a text is cut, and which files belong to it."""
