"""Floor 3: what people do with a model."""
