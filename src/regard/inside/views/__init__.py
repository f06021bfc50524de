"""Views: what was recorded, as text, SVG and HTML."""
