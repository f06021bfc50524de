"""Models compared: on the same data, by agreement, by how far back gradients reach."""
