"""Training runs of verbs: one or several compared, and their scores."""
