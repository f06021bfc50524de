"""Clusters of mentions: a text in the colours of its clusters, in a terminal and on a page."""

from collections.abc import Iterable
from html import escape

from rich.text import Text

from regard.inference.resolver import ResolvedText
from regard.views.markup import escape_controls, escape_line, fill_template

COLOURS = (
    *("bright_green", "bright_yellow", "bright_magenta", "bright_cyan", "bright_red", "green"),
    *("bright_blue", "yellow", "magenta", "cyan", "red", "blue"),
)
TURN = 137.5  # degrees between the hues of two clusters: no two of the first dozens are near


def cluster_line(resolved: ResolvedText) -> Text:
    """The line of a resolved text, with the words and marks of each cluster in its colour."""
    line = Text()
    for part in resolved.parts:
        text = " ".join(part.text.split()) or " "
        before = " " if part.text[:1].isspace() and text != " " else ""
        after = " " if part.text[-1:].isspace() and text != " " else ""
        line.append(before + escape_controls(text) + after, style=_colour(part.cluster))
    return line


def _colour(cluster: int) -> str:
    return COLOURS[(cluster - 1) % len(COLOURS)] if cluster else ""


def cluster_page(title: str, documents: Iterable[ResolvedText]) -> str:
    """HTML page of resolved texts, each with a list of its clusters."""
    sections = "\n".join(_section(resolved) for resolved in documents)
    return fill_template(
        "clusters.html", title=title, styles=["report.css", "clusters.css"], sections=sections
    )


def _section(resolved: ResolvedText) -> str:
    """A text, and its clusters; the title of a mention is its head word."""
    words = "".join(_part(part.text, part.cluster, part.is_mark) for part in resolved.parts)
    clusters = "\n".join(
        f'<li style="--hue:{cluster_hue(number)}">'
        + " · ".join(
            f'<span title="{escape(escape_line(f"head word: {mention.head}"))}">'
            f"{escape(escape_line(mention.text))}</span>"
            for mention in cluster
        )
        + "</li>"
        for number, cluster in enumerate(resolved.clusters, start=1)
    )
    return f'<section>\n<p class="text" dir="auto">{words}</p>\n<ol>\n{clusters}\n</ol>\n</section>'


def _part(text: str, cluster: int, is_mark: bool) -> str:
    shown = escape(escape_controls(text.replace("\n", " ")))
    if not cluster:
        return shown
    tag = "sub" if is_mark else "span"
    return f'<{tag} style="--hue:{cluster_hue(cluster)}">{shown}</{tag}>'


def cluster_hue(cluster: int) -> str:
    """Hue of a cluster, in degrees, by its number from 1."""
    return f"{TURN * (cluster - 1) % 360:g}"
