"""Labels without control characters, SVG elements, and HTML pages without external resources.

Drawings have plain attributes only, no style sheet and no ids, so they can be pasted into any page.
Pages are filled templates of ``assets``.
"""

import unicodedata
from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from itertools import chain, repeat
from pathlib import Path
from string import Template
from typing import Protocol, cast

from rich.cells import cell_len, set_cell_size

from regard.core.errors import BadInput
from regard.core.files import write_bytes
from regard.views.palette import LIGHT, STYLE, Palette

_JOINERS = "\u200c\u200d"  # needed to write Persian, Hindi and others
FONT, TITLE, MARGIN = 13, 17, 24  # pixels
GAP, LINE = 8, 24  # between parts; the line height of titles
LETTER = 0.55  # width of a letter in font sizes: an estimate, since SVG cannot measure text
SANS = 1.12  # width of sans-serif letters, which pages have, in widths of letters of a file
INK, QUIET, RULE, PAPER, ACCENT = LIGHT.ink, LIGHT.quiet, LIGHT.rule, LIGHT.paper, LIGHT.accent
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
CONVERTED = (".png", ".pdf")  # kinds of files that drawings are converted to
NO_CONVERTER = "drawings as PNG and PDF need the library CairoSVG: pip install 'regard[pictures]'"
COVERED = "grid-area:1/1;max-width:100%;max-height:760px"
Rows = Iterable[Sequence[str]]


def escape_controls(label: str) -> str:
    """Replace controls, unusual spaces and unpaired surrogates of a label by visible symbols."""
    return "".join(map(_escape_character, label))


def escape_line(text: str) -> str:
    """Put a text on one line: runs of white space become one space, controls are escaped."""
    return escape_controls(" ".join(text.split()))


def clip(label: str, width: int) -> str:
    """Truncate a label to ``width`` terminal columns (at least 1); … marks the cut."""
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


def svg_element(
    title: str, width: float, height: float, parts: Iterable[str], fill: str | None = None
) -> str:
    """SVG element with a title; ``fill`` is the colour of text."""
    colour = "" if fill is None else f'fill="{fill}" '
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    style = f'{colour}font-family="Charter, Georgia, serif" font-size="{FONT}"'
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size} {style}>'
    heading = f"<title>{escape(escape_line(title))}</title>"
    return "\n".join([opening, heading, *parts, "</svg>\n"])


def svg_sheet(
    title: str,
    caption: str,
    about: str,
    size: tuple[float, float],
    parts: Iterable[str],
    lines: Sequence[str] = (),
    colours: Palette = LIGHT,
) -> str:
    """SVG file with a background, a description, a title on one or several lines, and a caption."""
    lines = lines or [clip(escape_line(title), title_columns(size[0]))]
    first = [f"<desc>{escape(escape_line(about))}</desc>", svg_background(colours.paper)]
    for number, line in enumerate(lines, start=1):
        place = f'x="{MARGIN}" y="{MARGIN + LINE * number - GAP}" font-size="{TITLE}"'
        first.append(f"<text {place}>{escape(line)}</text>")
    under = MARGIN + LINE * len(lines) + FONT
    shown = escape(escape_line(caption))
    first.append(f'<text x="{MARGIN}" y="{under}" fill="{colours.quiet}">{shown}</text>')
    return svg_element(title, *size, [*first, *parts], colours.ink)


def title_columns(width: float) -> int:
    """Columns of a title in a drawing of this width."""
    return int((width - 2 * MARGIN) / (TITLE * LETTER))


def svg_background(colour: str = PAPER) -> str:
    """Background rectangle."""
    return f'<rect width="100%" height="100%" fill="{colour}"/>'


def svg_frame(width: int, height: int) -> str:
    """Frame around cells that begin at (0, 0)."""
    size = f'x="-1" y="-1" width="{width + 1}" height="{height + 1}"'
    return f'<rect {size} fill="none" stroke="{RULE}"/>'


def text_length(text: str, size: int = FONT) -> float:
    """Estimated width of a text, in pixels."""
    return size * LETTER * cell_len(text)


def read_asset(name: str) -> str:
    """Content of a file in ``assets``."""
    return (files("regard.views") / "assets" / name).read_text(encoding="utf-8")


def fill_template(name: str, *, title: str, styles: Sequence[str], **parts: str) -> str:
    """HTML page from the template of that name, without external resources.

    The title is plain text, styles are names of assets, and other parts are HTML.
    """
    title = escape(escape_line(title))
    style = STYLE + "".join(map(read_asset, styles))
    head = Template(read_asset("head.html")).substitute(title=title, policy=POLICY, style=style)
    return Template(read_asset(name)).substitute(title=title, head=head, **parts)


class Titled(Protocol):
    """Protocol of results with an HTML page and a title in plain text."""

    @property
    def title(self) -> str: ...
    def html(self) -> str: ...
    def static_drawing(self) -> str: ...


class HTMLPage(ABC):
    """Base class of results with a title that are shown as an HTML page, also in notebooks."""

    @abstractmethod
    def html(self) -> str:
        """HTML page without external resources."""

    def svg(self) -> str:
        """Standalone SVG file; empty if there is no drawing."""
        return ""

    def static_drawing(self) -> str:
        """Drawing for saved notebooks that are shown without scripts; empty: none."""
        return self.svg()

    def _repr_html_(self: Titled) -> str | None:
        """Page in an iframe, which keeps the styles of page and notebook apart.

        It covers the drawing, which is left where a notebook is shown without iframes.
        """
        title, drawing = escape(escape_line(self.title)), self.static_drawing()
        place = "grid-area:1/1;width:100%;border:0"
        image = ""
        if drawing:
            data = b64encode(drawing.encode()).decode()
            image = f'<img alt="{title}" src="data:image/svg+xml;base64,{data}" style="{COVERED}">'
        return (
            f'<div style="display:grid">{image}<iframe srcdoc="{escape(self.html())}" '
            f'title="{title}" sandbox="allow-scripts allow-downloads" '
            f'style="{place};height:760px;background:canvas;z-index:1"></iframe></div>'
        )

    def _repr_mimebundle_(
        self: Titled, include: object = None, exclude: object = None
    ) -> dict[str, str]:
        """Page, drawing and text: a notebook shows the first that it can."""
        page, drawing = HTMLPage._repr_html_(self), self.static_drawing()
        bundle = {"text/html": page, "image/svg+xml": drawing, "text/plain": str(self)}
        return {kind: data for kind, data in bundle.items() if data}


def report_page(
    title: str, columns: Sequence[str], rows: Rows, charts: Iterable[str], notes: Iterable[str]
) -> str:
    """HTML page with a table, charts (SVG) and notes."""
    parts = {
        "table": html_table(columns, rows),
        "chart": "\n".join(charts),
        "notes": "\n".join(f"<p>{escape(escape_line(note))}</p>" for note in notes),
    }
    return fill_template("report.html", title=title, styles=["report.css"], **parts)


def html_table(columns: Sequence[str], rows: Rows, ids: Sequence[str] = ()) -> str:
    """Table of plain texts that scrolls if it is too wide; rows may have ids, for links."""
    own = chain(ids, repeat(""))
    cells = (_table_row("td", row, name) for row, name in zip(rows, own, strict=False))
    lines = [_table_row("th", columns), *cells]
    return "\n".join(['<div class="scrolls">', "<table>", *lines, "</table>", "</div>"])


def _table_row(tag: str, cells: Sequence[str], name: str = "") -> str:
    texts = (escape(escape_line(cell)) for cell in cells)
    opening = f'<tr id="{escape(name)}">' if name else "<tr>"
    return opening + "".join(f"<{tag}>{text}</{tag}>" for text in texts) + "</tr>"


def converted_drawing(drawing: str, kind: str) -> bytes:
    """A drawing (SVG) as a file of another kind: ".png", with twice as many pixels, or ".pdf"."""
    try:
        import cairosvg
    except (ImportError, OSError):  # or it does not find the library cairo
        raise BadInput(NO_CONVERTER) from None
    if kind == ".pdf":
        return cast(bytes, cairosvg.svg2pdf(bytestring=drawing.encode()))
    return cast(bytes, cairosvg.svg2png(bytestring=drawing.encode(), scale=2))


def rendered_drawing(draw: Callable[[], str], suffix: str) -> bytes:
    """A drawing as the content of a file with this suffix; SVG unless it is .png or .pdf."""
    kind = suffix.lower()
    return converted_drawing(draw(), kind) if kind in CONVERTED else draw().encode()


def write_rendering(path: str | Path, renderings: Mapping[str, Callable[[], str | bytes]]) -> None:
    """Write the rendering of the suffix of a path; missing folders are created.

    A drawing, the rendering of .svg, is also written as .png and .pdf.
    """
    path = Path(path)
    suffix, known = path.suffix.lower(), [*renderings]
    if ".svg" in renderings:
        known += [kind for kind in CONVERTED if kind not in renderings]
    if suffix not in known:
        raise BadInput(f"{path}: the suffix must be one of {', '.join(known)}")
    if suffix in renderings:
        content = renderings[suffix]()
    else:
        content = rendered_drawing(cast(Callable[[], str], renderings[".svg"]), suffix)
    write_bytes(path, content.encode() if isinstance(content, str) else content)
