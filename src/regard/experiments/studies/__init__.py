"""Studies: models trained on the same data and compared, with the public API of regard only."""
