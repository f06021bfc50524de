"""Floor 5: the tasks that recipes train for, and the components of a model."""
