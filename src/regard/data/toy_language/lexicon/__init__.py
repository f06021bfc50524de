"""The words of the language: tables in which each line is an entry of both languages."""
