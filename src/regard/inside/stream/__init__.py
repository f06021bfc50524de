"""The residual stream: what heads and feed-forward layers write to it, and what follows from it."""
