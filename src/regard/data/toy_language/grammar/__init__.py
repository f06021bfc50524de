"""One tree, two readings: what is said, how English says it, and how German does."""
