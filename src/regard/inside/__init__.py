"""Floor 5: views of what happens inside a model: attention, alignments, search trees, vectors."""
