"""Floor 4: what people do with a model."""
