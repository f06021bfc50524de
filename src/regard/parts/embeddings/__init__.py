"""What enters the first layer as vectors: tokens, positions, characters, patches."""
