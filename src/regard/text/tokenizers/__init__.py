"""Tokenizers: what a model reads, from texts to rows of ids."""
