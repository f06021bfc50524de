"""Training examples by index, stored, sampled and packed into batches."""
