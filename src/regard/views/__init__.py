"""Views of recorded results, as text, SVG and HTML."""
