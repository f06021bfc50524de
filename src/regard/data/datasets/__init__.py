"""Training examples by index, and development examples beside them."""
