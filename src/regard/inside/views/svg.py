"""What the drawings share: sizes, colours and the element around them.

They have plain attributes only, no style sheet and no ids, so they can be pasted into any page.
"""

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from rich.cells import cell_len

from regard.inside.views.escape import escape_line

FONT, TITLE, MARGIN = 13, 17, 24  # pixels
GAP, LINE = 8, 24  # between parts; the line height of titles
LETTER = 0.55  # width of a letter in font sizes: an estimate, since SVG cannot measure text
INK, QUIET, RULE, PAPER, ACCENT = "#211f1c", "#6d675f", "#e3ded4", "#fdfcf9", "#b3361c"


def svg_element(
    title: str, width: float, height: float, parts: Iterable[str], fill: str | None = None
) -> str:
    """An SVG element with a title, the text in ``fill``."""
    colour = "" if fill is None else f'fill="{fill}" '
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width:.0f}" '
            f'height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" {colour}'
            f'font-family="Charter, Georgia, serif" font-size="{FONT}">',
            f"<title>{escape(escape_line(title))}</title>",
            *parts,
            "</svg>\n",
        ]
    )


def svg_heading(lines: Sequence[str], caption: str) -> Iterator[str]:
    """A title of several lines, and a caption below it."""
    for number, line in enumerate(lines, start=1):
        place = f'x="{MARGIN}" y="{MARGIN + LINE * number - GAP}" font-size="{TITLE}"'
        yield f"<text {place}>{escape(line)}</text>"
    under = MARGIN + LINE * len(lines)
    yield f'<text x="{MARGIN}" y="{under + FONT}" fill="{QUIET}">{escape(caption)}</text>'


def svg_background(colour: str = PAPER) -> str:
    """A sheet of paper under everything."""
    return f'<rect width="100%" height="100%" fill="{colour}"/>'


def svg_frame(width: int, height: int) -> str:
    """A line around cells that begin at 0."""
    size = f'x="-1" y="-1" width="{width + 1}" height="{height + 1}"'
    return f'<rect {size} fill="none" stroke="{RULE}"/>'


def tint(share: float, colour: str = ACCENT) -> str:
    """A colour between paper and another; not every SVG viewer supports opacity."""
    ends = zip(bytes.fromhex(PAPER[1:]), bytes.fromhex(colour[1:]), strict=True)
    return "#" + bytes(round(paper + (other - paper) * share) for paper, other in ends).hex()


def text_length(text: str, size: int = FONT) -> float:
    """About how wide a text is, in pixels."""
    return size * LETTER * cell_len(text)
