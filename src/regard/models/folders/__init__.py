"""Folders of models: regard's own format, and the formats of other libraries."""
