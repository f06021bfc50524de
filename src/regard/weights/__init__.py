"""Floor 1: tensors in files, read and written without running code."""
