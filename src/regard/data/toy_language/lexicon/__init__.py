"""The bilingual lexicon: tables with an entry on each line."""
