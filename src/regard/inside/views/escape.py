"""Escapes for labels: no invisible characters, no control sequences for the terminal."""

import unicodedata

from rich.cells import cell_len, set_cell_size

_JOINERS = "\u200c\u200d"  # needed to write Persian, Hindi and others


def escape_controls(label: str) -> str:
    """``label`` with a visible symbol for each control, unusual space or unpaired surrogate."""
    return "".join(map(_escape_character, label))


def escape_line(text: str) -> str:
    """``text`` on one line: runs of white space become one space, controls are escaped."""
    return escape_controls(" ".join(text.split()))


def clip(label: str, width: int) -> str:
    """``label`` truncated to ``width`` (at least 1) terminal columns, then ending in …."""
    label = escape_controls(label)
    if cell_len(label) <= width:
        return label
    return set_cell_size(label, width - 1).rstrip() + "…"


def _escape_character(character: str) -> str:
    if character.isprintable() or character in _JOINERS:
        return character
    if ord(character) < 0x20:
        return chr(0x2400 + ord(character))  # the control pictures: ␀ ␉ ␊ ␛
    return "␣" if unicodedata.category(character) == "Zs" else "\N{REPLACEMENT CHARACTER}"
