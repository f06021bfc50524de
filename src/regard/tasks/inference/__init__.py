"""What a model does with texts as it is, without a recipe: embeds, fills and scores them."""
