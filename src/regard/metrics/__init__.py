"""Floor 1: how good a system is, each figure with its signature."""
