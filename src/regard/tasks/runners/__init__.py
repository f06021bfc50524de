"""Models as people use them: from what callers give, through the model in batches, to results."""
