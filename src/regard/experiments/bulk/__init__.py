"""Components over files: lines, tables, annotated examples and images in, results in order out."""
