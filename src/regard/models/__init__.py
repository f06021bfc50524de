"""Floor 2: papers as values, one shared stack."""
