"""Every step of a computation with its numbers, and rules that recompute each of them."""
