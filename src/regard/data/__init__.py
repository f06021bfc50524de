"""Floor 2: text in files to batches of ids, the same every time."""
