"""Recurrent layers, and the other parts of recurrent decoders."""
