"""Vocabularies: subwords and words with their ids, learned from text or read from files."""
