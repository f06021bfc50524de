"""Inference: components that label, tag, embed, fill, score and write texts, and their runners."""
