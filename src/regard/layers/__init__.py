"""Floor 1: the building blocks of models."""
