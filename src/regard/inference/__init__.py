"""What a model does with texts, without a recipe: labels, tags, embeds, fills and scores them."""
