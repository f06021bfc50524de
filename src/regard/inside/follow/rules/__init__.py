"""Rules that recompute steps, in numpy and float64: they share no code with the layers."""
