"""Floor 4: what happens inside a model, made visible."""
