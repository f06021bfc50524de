"""Floor 1: the bricks every model is built from."""
