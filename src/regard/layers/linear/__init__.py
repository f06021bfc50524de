"""Linear layers for inference on a CPU: the same products, packed or in fewer bits."""
