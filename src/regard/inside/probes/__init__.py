"""Linear probes of the states of a model, layer by layer, with controls."""
