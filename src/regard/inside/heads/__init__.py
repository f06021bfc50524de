"""Floor 5: what each head of a model does: measures, relations, importance, and their report."""
