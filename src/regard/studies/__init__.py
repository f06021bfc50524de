"""Studies: models trained on the same data and compared; they prove the public names of regard."""
