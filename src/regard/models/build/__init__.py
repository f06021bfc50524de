"""Modules of models, made of parts and numbers; facts build them."""
