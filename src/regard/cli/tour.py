"""placeholder"""


def tour() -> None:
    """Tour."""
