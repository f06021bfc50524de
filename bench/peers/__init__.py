"""Systems that regard is compared with: none of these files imports regard."""
