"""Tokenizers: from texts to rows of ids."""
