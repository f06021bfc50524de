"""Readers: everything that makes examples of files, tables and Python values."""
