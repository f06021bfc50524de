"""Random trees of parts that fit together."""
