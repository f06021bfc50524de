"""Floor 7: the studio, a page of the server on which models are tried and opened up."""
