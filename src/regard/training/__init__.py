"""Floor 5: from a recipe to a trained folder."""
