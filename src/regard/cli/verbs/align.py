"""``regard align``: word alignment from cross-attention."""

from collections import Counter
from typing import Annotated, Literal

from typer import Argument, Option

from regard.cli import options
from regard.cli.io.console import note, print_json, print_line
from regard.data.readers.aligned_pairs import read_fast_align, read_gold_links, read_text_pairs
from regard.data.readers.sources import Lines
from regard.ground.errors import BadInput
from regard.metrics.alignment import alignment_error_rate, format_pharaoh, link_types
from regard.text.words import spaced_spans, word_spans


def align(
    model: options.MODEL,
    source: Annotated[
        str, Argument(metavar="SRC", help="Source sentences, one per line; or 'source ||| target'.")
    ],
    target: Annotated[
        str | None, Argument(metavar="TGT", help="Translations of SRC, line by line.")
    ] = None,
    reverse_model: Annotated[
        str | None, Option(metavar="MODEL", help="Model of the opposite direction.")
    ] = None,
    symmetrise: Annotated[
        options.Symmetrisation | None,
        Option(help="Symmetrisation of both directions.", show_default="grow-diag-final"),
    ] = None,
    multiply: Annotated[
        bool, Option("--multiply", help="Multiply the attention of both directions.")
    ] = False,
    choose: Annotated[
        Literal["agreement"] | None,
        Option(help="Choose the methods on which both directions agree most."),
    ] = None,
    gold: Annotated[
        str | None,
        Option(metavar="FILE", help="Gold links (i-j sure, ipj possible); prints the AER."),
    ] = None,
    base: Annotated[
        int | None, Option(help="First index of gold links, 0 or 1.", show_default="0")
    ] = None,
    count_kinds: Annotated[
        bool, Option("--kinds", help="Count the types of links: 1-1, 1-n, spurious words ...")
    ] = False,
    pretokenised: options.PRETOKENISED = False,
    subwords: options.SUBWORDS = False,
    layer: options.LAYER = None,
    head: options.HEAD = None,
    shifted: Annotated[
        bool | None,
        Option(
            "--shifted/--plain",
            help="Align a word by the decoder step that reads it (--shifted) or predicts it.",
        ),
    ] = None,
    max_length: options.MAX_LENGTH = None,
    batch_size: options.BATCH_SIZE = None,
    precision: options.STORED_PRECISION = None,
    device: options.DEVICE = None,
    as_json: options.JSON = False,
) -> None:
    """Print word alignments read from cross-attention.

    One line for each pair: links source-target, counted from 0. Punctuation marks count as words,
    and so do the characters of scripts without spaces (Chinese, Japanese, Thai and the like); text
    with ||| is pretokenised. The alignment method (layer, head, step) is stored with the model (the
    tour chooses it on its dev set), else it is the last layer. The alignment error rate and the
    types of links are printed to standard error.

    With --reverse-model, a model that translates TGT to SRC aligns the same pairs, and both
    alignments are symmetrised. With --multiply, both are read from the product of the two attention
    matrices, which is often better. With --choose agreement, both models use the methods that agree
    most on the first pairs; this needs no gold links.

    Example: regard align runs/tour/model test.en test.de --gold test.links --kinds
    """
    from regard.api import load
    from regard.cli import alignment

    changes = {"layer": layer, "head": head, "shifted": shifted}
    if reverse_model is None:
        flags = {"--symmetrise": symmetrise, "--multiply": multiply, "--choose": choose}
        options.refuse(flags, "needs --reverse-model")
    if choose and any(value is not None for value in changes.values()):
        raise BadInput("--choose agreement: cannot be used with --layer, --head or --shifted")
    _check_gold(gold, base, subwords, pretokenised)
    words = spaced_spans if pretokenised or target is None else word_spans
    spans = None if subwords else words
    pairs = read_fast_align(source) if target is None else read_text_pairs(Lines((source, target)))
    if choose and not pairs:
        raise BadInput("--choose agreement: SRC has no pairs")
    golds = None if gold is None else read_gold_links(gold, base or 0, pairs, words)
    models = [
        load(folder, device, precision=precision, batch_size=batch_size)
        for folder in (model, reverse_model)
        if folder is not None
    ]
    limit = max_length or options.MAX_TOKENS
    alignment.check_lengths(pairs, (source, target or source), models[0], limit)
    units = alignment.linked_units(models, spans)
    aligner = alignment.Aligner(models, spans, symmetrise or "grow-diag-final", multiply)
    methods = aligner.choose_methods(pairs, changes, bool(choose))
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


def _check_gold(gold: str | None, base: int | None, subwords: bool, pretokenised: bool) -> None:
    if base not in (None, 0, 1):
        raise BadInput(f"--base: gold links count from 0 or 1, not {base}")
    if base is not None and gold is None:
        raise BadInput("--base: needs --gold")
    if subwords and (pretokenised or gold is not None):
        raise BadInput("--subwords: cannot be used with --pretokenised or --gold")
