"""Images in training: examples that are decoded as they are needed, and their augmentation."""
