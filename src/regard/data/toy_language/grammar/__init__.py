"""Syntax trees, and their realisation in English and in German."""
