"""Floor 3: what a model is asked to learn."""
