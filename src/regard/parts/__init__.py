"""Floor 1: the parts that models are built from."""
