"""regard: train, run, measure and open up attention models."""

__version__ = "0.1.0"
