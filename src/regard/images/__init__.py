"""Images: read from files, resized and normalised as a model expects them."""
