"""Floor 4: from a recipe to a trained folder."""
