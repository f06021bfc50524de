"""Floor 3: training objectives."""
