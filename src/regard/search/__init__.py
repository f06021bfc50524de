"""Floor 3: from next-token distributions to sequences."""
