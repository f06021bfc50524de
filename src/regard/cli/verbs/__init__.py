"""The verbs: options, help and what is printed. Nothing here imports torch before a verb runs."""
