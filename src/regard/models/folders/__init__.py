"""Folders of models: regard's own, and those of other libraries."""
