"""Rules of searches as values: constraints, penalties, and when a beam ends."""
