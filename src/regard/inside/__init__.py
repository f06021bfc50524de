"""Floor 5: what happens inside a model, made visible."""
