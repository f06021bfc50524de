"""Floor 0: how a batch lies in memory, and what a run records. Knows only torch."""
