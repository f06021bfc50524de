"""``regard align``: word alignment from cross-attention."""

from collections import Counter
from typing import Annotated, Any, Literal

import typer

from regard.cli.io.console import note, print_json, print_line
from regard.cli.options import (
    BATCH_SIZE,
    DEVICE,
    HEAD,
    JSON,
    LAYER,
    MAX_LENGTH,
    MAX_TOKENS,
    MODEL,
    PRETOKENISED,
    STORED_PRECISION,
    SUBWORDS,
    Symmetrisation,
)
from regard.data.files.aligned_pairs import read_fast_align, read_gold_links, read_text_pairs
from regard.data.files.sources import Lines
from regard.ground.errors import BadInput
from regard.metrics.alignment import alignment_error_rate, format_pharaoh, link_types
from regard.text.words import spaced_spans, word_spans


def align(
    model: MODEL,
    source: Annotated[
        str, typer.Argument(metavar="SRC", help="Sentences, one per line; or 'source ||| target'.")
    ],
    target: Annotated[str | None, typer.Argument(metavar="TGT", help="Their translations.")] = None,
    reverse_model: Annotated[
        str | None, typer.Option(metavar="MODEL", help="A model of the opposite direction.")
    ] = None,
    symmetrise: Annotated[
        Symmetrisation | None,
        typer.Option(help="Symmetrisation of both directions.", show_default="grow-diag-final"),
    ] = None,
    multiply: Annotated[
        bool, typer.Option("--multiply", help="Multiply the attention of both directions.")
    ] = False,
    choose: Annotated[
        Literal["agreement"] | None,
        typer.Option(help="Choose the methods on which both directions agree most."),
    ] = None,
    gold: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Gold links, i-j sure, ipj possible; adds the AER."),
    ] = None,
    base: Annotated[
        int | None, typer.Option(help="First index of gold links, 0 or 1.", show_default="0")
    ] = None,
    count_kinds: Annotated[
        bool, typer.Option("--kinds", help="Count the types of links: 1-1, 1-n, spurious words ...")
    ] = False,
    pretokenised: PRETOKENISED = False,
    subwords: SUBWORDS = False,
    layer: LAYER = None,
    head: HEAD = None,
    shifted: Annotated[
        bool | None,
        typer.Option("--shifted/--plain", help="Read the step whose input is the word."),
    ] = None,
    max_length: MAX_LENGTH = None,
    batch_size: BATCH_SIZE = None,
    precision: STORED_PRECISION = None,
    device: DEVICE = None,
    as_json: JSON = False,
) -> None:
    """Print word alignments read from cross-attention.

    One line for each pair: links source-target, counted from 0. Punctuation marks count as words,
    and so do the characters of scripts without spaces (Chinese, Japanese, Thai and the like); text
    with ||| is pretokenised. The decoder layer and the alignment method are those stored with the
    model (the tour chooses them on its development set), else the last layer. The alignment error
    rate and the types of links are printed to standard error.

    With --reverse-model, a model that translates TGT to SRC aligns the same pairs, and both
    alignments are symmetrised. With --multiply, both are read from the product of the two attention
    matrices, which is often better. With --choose agreement, the layers and methods are those on
    which both models agree most over the first pairs, without gold links.

    Example: regard align runs/tour/model test.en test.de --gold test.links --kinds
    """
    from regard.api import load
    from regard.cli import alignment

    given = {"layer": layer, "head": head, "shifted": shifted}
    both = {"--symmetrise": symmetrise, "--multiply": multiply, "--choose": choose}
    _check_directions(reverse_model, both, given)
    _check_gold(gold, base, subwords, pretokenised)
    words = spaced_spans if pretokenised or target is None else word_spans
    spans = None if subwords else words
    pairs = read_fast_align(source) if target is None else read_text_pairs(Lines((source, target)))
    if choose and not pairs:
        raise BadInput("--choose agreement: there are no pairs")
    golds = None if gold is None else read_gold_links(gold, base or 0, pairs, words)
    models = [
        load(folder, device, precision=precision, batch_size=batch_size)
        for folder in (model, reverse_model)
        if folder is not None
    ]
    limit = max_length or MAX_TOKENS
    alignment.check_lengths(pairs, (source, target or source), models[0], limit)
    units = alignment.linked_units(models, spans)
    aligner = alignment.Aligner(models, spans, symmetrise or "grow-diag-final", multiply)
    methods = aligner.choose_methods(pairs, given, bool(choose))
    for name, method in zip(("method", "reverse method"), methods, strict=False):
        note(f"{name}: {method}")
    links = aligner.links(pairs, methods)
    for pair, pair_links in zip(pairs, links, strict=True):
        if as_json:
            of_source, of_target = units(*pair)
            print_json({"source": of_source, "target": of_target, "links": sorted(pair_links)})
        else:
            print_line(format_pharaoh(pair_links))
    if golds is not None:
        score = alignment_error_rate(links, golds)
        figures = {"aer": score.aer, "precision": score.precision, "recall": score.recall}
        alignment.report_figures(figures, as_json)
    if count_kinds:
        counts: Counter[str] = Counter()
        for pair, pair_links in zip(pairs, links, strict=True):
            counts.update(link_types(pair_links, *map(len, units(*pair))))
        alignment.report_figures(dict(counts), as_json)


def _check_directions(
    reverse_model: str | None, both: dict[str, Any], given: dict[str, Any]
) -> None:
    """Options of two directions need both; a method is chosen or given."""
    if reverse_model is None and (used := [name for name, value in both.items() if value]):
        raise BadInput(f"{', '.join(used)}: needs --reverse-model")
    if both["--choose"] and any(value is not None for value in given.values()):
        raise BadInput("--choose agreement: cannot be used with --layer, --head or --shifted")


def _check_gold(gold: str | None, base: int | None, subwords: bool, pretokenised: bool) -> None:
    if base not in (None, 0, 1):
        raise BadInput(f"--base: gold links count from 0 or 1, not {base}")
    if base is not None and gold is None:
        raise BadInput("--base: needs --gold")
    if subwords and (pretokenised or gold is not None):
        raise BadInput("--subwords: cannot be used with --pretokenised or --gold")
