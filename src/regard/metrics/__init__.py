"""Floor 1: metrics, each with its signature."""
