"""Floor 1: raw text to ids and back."""
