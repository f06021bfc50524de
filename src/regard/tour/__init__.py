"""``regard tour``: a model trained, measured and inspected on a toy language."""
