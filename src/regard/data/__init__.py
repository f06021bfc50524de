"""Floor 2: from files of text to batches of ids, reproducibly."""
