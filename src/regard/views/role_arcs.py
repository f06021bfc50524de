"""Frames of a sentence as SVG: an arc from the predicate to each argument, one strip a frame."""

from collections.abc import Iterator, Sequence
from html import escape

from regard.inference.role_labeller import PredictedFrame, SentenceFrames
from regard.metrics.roles import VERB
from regard.views import markup
from regard.views.markup import FONT, GAP, LINE, MARGIN
from regard.views.palette import LIGHT, Palette

SMALL = 11  # pixels of a label
RISE, LOW = 13, 12  # pixels between the tops of two arcs, and of the lowest above labels
CAPTION = "an arc leads from a predicate to each of its arguments"


def draw_frames(sentence: SentenceFrames, title: str, colours: Palette = LIGHT) -> str:
    """Draw all frames of a sentence, below each other."""
    words = [markup.escape_controls(word) for word in sentence.words]
    strips = [_strip(words, frame, colours) for frame in sentence.frames]
    width = max([420.0, *(2 * MARGIN + strip[0] for strip in strips)])
    caption, parts = CAPTION if strips else "no predicate", list[str]()
    top = float(MARGIN + 2 * LINE + GAP)
    for _, height, drawn in strips:
        parts += [f'<g transform="translate({MARGIN} {top:.1f})">', *drawn, "</g>"]
        top += height + LINE
    about = sentence.line or caption
    return markup.svg_sheet(title, caption, about, (width, top), parts, colours=colours)


def _strip(
    words: Sequence[str], frame: PredictedFrame, colours: Palette
) -> tuple[float, float, list[str]]:
    """Width, height and elements of one frame."""
    sizes = [markup.text_length(word) + GAP for word in words]
    for argument in frame.arguments:  # room for its label
        label = markup.text_length(argument.label, SMALL) + GAP
        sizes[argument.end - 1] += max(0.0, label - sum(sizes[argument.start : argument.end]))
    lefts = [sum(sizes[:place]) for place in range(len(sizes))]
    others = [argument for argument in frame.arguments if argument.label != VERB]
    others.sort(
        key=lambda argument: min(
            abs(argument.start - frame.predicate), abs(argument.end - 1 - frame.predicate)
        )
    )
    base = LOW + RISE * len(others) + SMALL + GAP  # of the words
    drawn = [*_words(words, lefts, base, frame, colours.accent)]
    at = lefts[frame.predicate] + (sizes[frame.predicate] - GAP) / 2
    for rank, argument in enumerate(others, start=1):
        left, right = lefts[argument.start], lefts[argument.end - 1] + sizes[argument.end - 1] - GAP
        middle, peak = (left + right) / 2, base - SMALL - GAP - LOW - RISE * rank
        line = base - FONT - 3
        place = f'x="{middle:.1f}" y="{line - 4:.1f}" text-anchor="middle" font-size="{SMALL}"'
        drawn += [
            f'<line x1="{left:.1f}" x2="{right:.1f}" y1="{line}" y2="{line}" '
            f'stroke="{colours.quiet}"/>',
            f'<text {place} fill="{colours.quiet}"><title>{argument.probability:.4f}</title>'
            f"{escape(markup.escape_controls(argument.label))}</text>",
            f'<path d="M {at:.1f} {line} C {at:.1f} {peak:.1f} {middle:.1f} {peak:.1f} '
            f'{middle:.1f} {line - SMALL - 4}" fill="none" stroke="{colours.accent}"/>',
        ]
    return sum(sizes), float(base + GAP), drawn


def _words(
    words: Sequence[str], lefts: Sequence[float], base: int, frame: PredictedFrame, accent: str
) -> Iterator[str]:
    verbs = [argument for argument in frame.arguments if argument.label == VERB]
    bold = {place for argument in verbs for place in range(argument.start, argument.end)}
    for place, (word, left) in enumerate(zip(words, lefts, strict=True)):
        style = f' fill="{accent}" font-weight="bold"' if place in bold else ""
        yield f'<text x="{left:.1f}" y="{base}"{style}>{escape(word)}</text>'
