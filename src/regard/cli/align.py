"""``regard align``: attention read as word alignment."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Annotated, Any, Literal

import typer

from regard.api import Model, load
from regard.cli.console import DEVICE, JSON, MODEL, note, print_json, print_line
from regard.cli.gold_links import Pairs, golds_in, pairs_in
from regard.cli.line_io import LONGEST, MAX_LENGTH, check_length
from regard.data.fast_align import read_fast_align
from regard.data.sources import Lines, name_of
from regard.ground.errors import BadInput
from regard.inside.align import AlignmentMethod, PairAttention
from regard.inside.bidirectional import choose_agreeing_methods, multiply_directions
from regard.inside.record_translator import WINDOW, record
from regard.inside.record_translator import align as links_of
from regard.metrics.alignment import Links, alignment_error_rate, format_pharaoh, link_types
from regard.metrics.symmetrise import flipped, symmetrised
from regard.text.words import Spans, spaced_spans, word_spans

How = Literal["intersection", "grow-diag", "grow-diag-final-and", "grow-diag-final", "union"]

Units = Callable[[str, str], tuple[list[str], ...]]  # of a pair, what is linked


def align(
    model: MODEL,
    source: Annotated[
        str, typer.Argument(metavar="SRC", help="Sentences, one a line; or 'source ||| target'.")
    ],
    target: Annotated[str | None, typer.Argument(metavar="TGT", help="Their translations.")] = None,
    back: Annotated[
        str | None, typer.Option(metavar="MODEL", help="A model of the other direction.")
    ] = None,
    symmetrise: Annotated[
        How | None, typer.Option(help="How two directions become one: grow-diag-final.")
    ] = None,
    multiply: Annotated[
        bool, typer.Option("--multiply", help="Multiply the weights of both directions.")
    ] = False,
    choose: Annotated[
        Literal["agreement"] | None,
        typer.Option(help="Choose the methods on which both directions agree most."),
    ] = None,
    gold: Annotated[
        str | None, typer.Option(help="Gold links: i-j sure, ipj possible; prints the error rate.")
    ] = None,
    base: Annotated[
        int | None, typer.Option(help="What gold links count from: 0 (if not told) or 1.")
    ] = None,
    count_kinds: Annotated[
        bool, typer.Option("--kinds", help="Count kinds of links: 1-1, 1-n, spurious words ...")
    ] = False,
    spaced: Annotated[
        bool, typer.Option("--spaced", help="Words are what spaces set apart (with ||| always).")
    ] = False,
    subwords: Annotated[
        bool, typer.Option("--subwords", help="Link the pieces of the vocabulary, not words.")
    ] = False,
    layer: Annotated[int | None, typer.Option(help="Decoder layer, from 0.")] = None,
    head: Annotated[int | None, typer.Option(help="One head instead of their mean.")] = None,
    shifted: Annotated[
        bool | None,
        typer.Option("--shifted/--plain", help="Read the step that has the word as its input."),
    ] = None,
    max_length: MAX_LENGTH = LONGEST,
    as_json: JSON = False,
    device: DEVICE = None,
) -> None:
    """Print links between words, source-target, counted from 0, one line for each pair.

    Words and punctuation marks count as words, and in scripts without spaces (Chinese, Japanese,
    Thai and the like) characters do; with --spaced, what spaces set apart; with --subwords, pieces
    of the vocabulary. Layer and method are those saved with the model (the tour chooses them on its
    development set), else the last layer, unless given. Error rate and kinds go to standard error.

    With --back, a model that translates TGT to SRC aligns the same pairs, and both alignments are
    made one; with --multiply, both are read from the product of the two attentions, which is often
    better. With --choose agreement, layer and method of both are those on which they agree most
    over the first pairs; no gold is looked at.

    Example: regard align runs/tour/model test.en test.de --gold test.links --kinds
    """
    if back is None and (symmetrise or multiply or choose):
        raise BadInput("--symmetrise, --multiply and --choose need the other direction: --back")
    given = {"layer": layer, "head": head, "shifted": shifted}
    if choose and any(value is not None for value in given.values()):
        raise BadInput("--choose agreement chooses what --layer, --head and --shifted say")
    if base not in (None, 0, 1):
        raise BadInput(f"--base: gold links count from 0 or 1, not {base}")
    if base is not None and gold is None:
        raise BadInput("--base: means nothing without --gold")
    if subwords and (spaced or gold is not None):
        raise BadInput("--subwords: --spaced and --gold count words")
    by_words = spaced_spans if spaced or target is None else word_spans
    spans = None if subwords else by_words
    pairs = read_fast_align(source) if target is None else pairs_in(Lines((source, target)))
    if choose and not pairs:
        raise BadInput("--choose agreement: there are no pairs to agree on")
    golds = None if gold is None else golds_in(gold, base or 0, pairs, by_words)
    models = [load(one, device) for one in (model, back) if one is not None]
    _check_lengths(pairs, (source, target or source), models[0], max_length)
    units = _units(models, spans)
    methods = _agreed(models, pairs, spans) if choose else [m.alignment_method for m in models]
    ways = zip(models, methods, (pairs, _turned(pairs)), strict=False)
    methods = [_as_given(*one, given) for one in ways]
    for way, method in zip(("read", "back"), methods, strict=False):
        note(f"{way}: {method}")
    if back is None:
        found = list(links_of(models[0].translator, pairs, methods[0], spans))
    else:
        both = _multiplied if multiply else _apart
        how = symmetrise or "grow-diag-final"
        found = [symmetrised(*one, how) for one in both(models, methods, pairs, spans)]
    for (one, other), links in zip(pairs, found, strict=True):
        if as_json:
            words = units(one, other)
            print_json({"source": words[0], "target": words[1], "links": sorted(links)})
        else:
            print_line(format_pharaoh(links))
    if golds is not None:
        score = alignment_error_rate(found, golds)
        _report({"aer": score.aer, "precision": score.precision, "recall": score.recall}, as_json)
    if count_kinds:
        counts: Counter[str] = Counter()
        for (one, other), links in zip(pairs, found, strict=True):
            counts.update(link_types(links, *map(len, units(one, other))))
        _report(dict(counts), as_json)


def _check_lengths(pairs: Pairs, files: tuple[str, str], model: Model, most: int) -> None:
    sides = model.translator.text.sides
    for number, pair in enumerate(pairs, start=1):
        for text, vocabulary, file in zip(pair, sides, files, strict=True):
            check_length(text, vocabulary, most, f"{name_of(file)}:{number}")


def _turned(pairs: Pairs) -> Pairs:
    return [(target, source) for source, target in pairs]


def _agreed(models: list[Model], pairs: Pairs, spans: Spans | None) -> list[AlignmentMethod]:
    looked = pairs[:WINDOW]
    forward, backward = _attention(models, looked, spans)
    agreed = choose_agreeing_methods(forward, backward)
    note(f"chosen by agreement on {len(looked)} pairs: {agreed.share:.4f} of the links are common")
    return [agreed.forward, agreed.backward]


def _as_given(
    model: Model, method: AlignmentMethod, pairs: Pairs, given: dict[str, Any]
) -> AlignmentMethod:
    """The method with the given options instead, if the model has such a layer and head."""
    method = replace(method, **{k: v for k, v in given.items() if v is not None})
    for pair in record(model.translator, pairs[:1]):
        layers = pair.attention().layers
        depth, heads = len(layers), min(map(len, layers))
        if not (0 <= method.layer < depth and 0 <= (method.head or 0) < heads):
            raise BadInput(f"the decoder has layers 0-{depth - 1} and heads 0-{heads - 1}")
    return method


def _apart(
    models: list[Model], methods: list[AlignmentMethod], pairs: Pairs, spans: Spans | None
) -> Iterator[tuple[Links, Links]]:
    """The links of each direction, both as (source, target)."""
    forward = links_of(models[0].translator, pairs, methods[0], spans)
    backward = links_of(models[1].translator, _turned(pairs), methods[1], spans)
    return zip(forward, map(flipped, backward), strict=True)


def _multiplied(
    models: list[Model], methods: list[AlignmentMethod], pairs: Pairs, spans: Spans | None
) -> Iterator[tuple[Links, Links]]:
    """The same, from the product of both attentions."""
    for start in range(0, len(pairs), WINDOW):
        some = pairs[start : start + WINDOW]
        forward, backward = _attention(models, some, spans)
        for ours, theirs in zip(forward, backward, strict=True):
            yield multiply_directions(ours, theirs, *methods)


def _attention(models: list[Model], pairs: Pairs, spans: Spans | None) -> list[list[PairAttention]]:
    return [
        [one.attention(spans) for one in record(model.translator, given)]
        for model, given in zip(models, (pairs, _turned(pairs)), strict=True)
    ]


def _units(models: list[Model], spans: Spans | None) -> Units:
    """What is linked: words, or without ``spans`` pieces, which both directions must share."""
    if spans is not None:
        return lambda *pair: tuple([text[i:j] for i, j in spans(text)] for text in pair)
    sides = [(one.translator.text.source, one.translator.text.target) for one in models]
    for others in sides[1:]:
        if [one.fingerprint for one in others[::-1]] != [one.fingerprint for one in sides[0]]:
            raise BadInput("--subwords: the two models cut text into different pieces")
    return lambda *pair: tuple(
        side.pieces(side.encode(text)) for side, text in zip(sides[0], pair, strict=True)
    )


def _report(figures: dict[str, Any], as_json: bool) -> None:
    """Figures on one line of standard error."""
    if as_json:
        note(json.dumps(figures))
    else:
        written = {k: f"{v:.4f}" if isinstance(v, float) else f"{v:,}" for k, v in figures.items()}
        note("  ".join(f"{name} {value}" for name, value in written.items()))
