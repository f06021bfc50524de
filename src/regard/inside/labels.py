"""Token labels made safe to show: nothing invisible, nothing that steers a terminal."""

import unicodedata

from rich.cells import cell_len, set_cell_size

_JOINERS = "\u200c\u200d"  # Persian, Hindi and many more are written with these


def visible(label: str) -> str:
    """``label`` with a visible sign in place of every control, odd space or unpaired surrogate."""
    return "".join(map(_visible_character, label))


def visible_line(text: str) -> str:
    """``text`` with every run of white space as one blank, made visible."""
    return visible(" ".join(text.split()))


def clip(label: str, width: int) -> str:
    """``label`` cut to at most ``width`` (at least 1) terminal columns, ending in … where cut."""
    label = visible(label)
    if cell_len(label) <= width:
        return label
    return set_cell_size(label, width - 1).rstrip() + "…"


def _visible_character(character: str) -> str:
    if character.isprintable() or character in _JOINERS:
        return character
    if ord(character) < 0x20:
        return chr(0x2400 + ord(character))  # the control pictures: ␀ ␉ ␊ ␛
    return "␣" if unicodedata.category(character) == "Zs" else "\N{REPLACEMENT CHARACTER}"
