"""Word alignment from the attention of one model, or of two of opposite directions."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from regard.api import Model
from regard.core.errors import ArgumentName, BadArgument, BadInput
from regard.data.readers.aligned_pairs import (
    Pairs,
    read_fast_align,
    read_gold_links,
    read_text_pairs,
)
from regard.data.readers.sources import Lines
from regard.data.readers.text_files import name_of
from regard.experiments.bulk.line_source import MAX_TOKENS, check_length
from regard.experiments.notes import Listener, Note, ignore
from regard.experiments.options import LoadOptions
from regard.experiments.options.measuring import AlignmentOptions
from regard.experiments.result import ExperimentResult, OutputTable, text_column
from regard.inside.align import (
    WINDOW,
    AlignmentMethod,
    PairAttention,
    choose_agreeing_methods,
    choose_method,
    multiply_directions,
    record,
)
from regard.inside.align import align as extract
from regard.metrics.links import (
    AlignmentScore,
    GoldLinks,
    Links,
    Symmetrisation,
    alignment_error_rate,
    flipped,
    format_pharaoh,
    link_types,
    symmetrised,
)
from regard.text.words import Spans, spaced_spans, word_spans

GoldPairs = tuple[Pairs, list[GoldLinks]]
Units = Callable[[str, str], tuple[list[str], ...]]
"""From a pair of texts to the words, or subwords, that are linked."""


@dataclass(frozen=True)
class Aligner:
    """Word aligner: one model, or two of opposite directions, whose cross-attention gives links.

    ``spans`` finds the words of a text; without it subword tokens are linked.
    """

    models: list[Model]
    spans: Spans | None
    symmetrisation: Symmetrisation = "grow-diag-final"
    multiply: bool = False

    def choose_methods(
        self,
        pairs: Pairs,
        changes: Mapping[str, Any],
        by_agreement: bool,
        on_event: Listener = ignore,
    ) -> list[AlignmentMethod]:
        """The stored methods, or the two that agree most, with ``changes`` of single fields."""
        methods = [model.alignment_method for model in self.models]
        if by_agreement:
            window = pairs[:WINDOW]
            agreed = choose_agreeing_methods(*self._attention(window))
            methods, share = [agreed.forward, agreed.backward], f"{agreed.share:.4f}"
            chosen = f"chosen by agreement on {len(window)} pairs"
            on_event(Note(f"{chosen}: {share} of the links are common"))
        return [
            _with_changes(model, method, examples, changes)
            for (model, examples), method in zip(self._directions(pairs), methods, strict=True)
        ]

    def links(self, pairs: Pairs, methods: list[AlignmentMethod]) -> list[Links]:
        """The links of each pair."""
        if self.multiply:
            both = self._multiplied_links(pairs, methods)
        else:
            forward, *backward = (
                extract(model.translator, examples, method, self.spans)
                for (model, examples), method in zip(self._directions(pairs), methods, strict=True)
            )
            if not backward:
                return list(forward)
            both = zip(forward, map(flipped, backward[0]), strict=True)
        return [symmetrised(*links, self.symmetrisation) for links in both]

    def _multiplied_links(
        self, pairs: Pairs, methods: list[AlignmentMethod]
    ) -> Iterator[tuple[Links, Links]]:
        """Links of both directions, from the product of their attention matrices."""
        for start in range(0, len(pairs), WINDOW):
            both = zip(*self._attention(pairs[start : start + WINDOW]), strict=True)
            for forward, backward in both:
                yield multiply_directions(forward, backward, *methods)

    def _attention(self, pairs: Pairs) -> list[list[PairAttention]]:
        return [
            [pair.attention(self.spans) for pair in record(model.translator, examples)]
            for model, examples in self._directions(pairs)
        ]

    def _directions(self, pairs: Pairs) -> list[tuple[Model, Pairs]]:
        """Each model with the pairs in the order (source, target) of that model."""
        orders = pairs, [(target, source) for source, target in pairs]
        return list(zip(self.models, orders, strict=False))


def align_by_best_method(model: Model, dev: GoldPairs, test: GoldPairs) -> AlignmentScore:
    """Align a test set by the best method on a dev set, which is stored with the model."""
    attention = [pair.attention() for pair in record(model.translator, dev[0])]
    model.alignment_method, _ = choose_method(attention, dev[1])
    return alignment_error_rate(list(model.align(test[0])), test[1])


def _with_changes(
    model: Model, method: AlignmentMethod, pairs: Pairs, changes: Mapping[str, Any]
) -> AlignmentMethod:
    """The method with changed fields, if the model has the layer and the head."""
    method = replace(method, **{k: v for k, v in changes.items() if v is not None})
    for pair in record(model.translator, pairs[:1]):
        layers = pair.attention().layers
        try:
            layer = range(len(layers))[method.layer]
            head = None if method.head is None else range(len(layers[layer]))[method.head]
        except IndexError:
            depth, heads = len(layers), min(map(len, layers))
            has = f"layers 0-{depth - 1} and heads 0-{heads - 1}"
            raise BadArgument(f"the decoder has {has}", key=("layer", "head")) from None
        method = replace(method, layer=layer, head=head)
    return method


def linked_units(models: list[Model], spans: Spans | None) -> Units:
    """Function that splits pairs into words, or without ``spans`` into subword tokens.

    Two models must have the same subword vocabularies.
    """
    if spans is not None:
        return lambda *pair: tuple([text[i:j] for i, j in spans(text)] for text in pair)
    sides = [model.translator.vocabularies.sides for model in models]
    for reverse in sides[1:]:
        if [side.fingerprint for side in reverse[::-1]] != [side.fingerprint for side in sides[0]]:
            raise BadArgument("the two models have different vocabularies", key="subwords")
    return lambda *pair: tuple(
        side.pieces(side.encode(text)) for side, text in zip(sides[0], pair, strict=True)
    )


@dataclass(frozen=True)
class AlignmentFigures:
    """Figures of all alignments together."""

    values: Mapping[str, float]

    def __str__(self) -> str:
        texts = (
            f"{name} {value:.4f}" if isinstance(value, float) else f"{name} {value:,}"
            for name, value in self.values.items()
        )
        return "  ".join(texts)


@dataclass(frozen=True)
class Alignments(ExperimentResult):
    """Links of each pair of texts; ``figures`` are error rates, and counts of links by type."""

    pairs: Pairs
    links: Sequence[Links]
    units: Units
    figures: Sequence[AlignmentFigures]

    def tables(self) -> list[OutputTable]:
        rows = [
            (*pair, format_pharaoh(of)) for pair, of in zip(self.pairs, self.links, strict=True)
        ]
        return [OutputTable([*map(text_column, ("source", "target", "links"))], rows)]

    def records(self) -> Iterator[dict[str, object]]:
        for pair, links in zip(self.pairs, self.links, strict=True):
            source, target = self.units(*pair)
            yield {"source": source, "target": target, "links": sorted(links)}

    def text(self, width: int | None = None) -> Iterator[str]:
        """A line for each pair, in the format of Pharaoh."""
        return map(format_pharaoh, self.links)


def align_files(
    model: str,
    source: str,
    target: str | None,
    options: AlignmentOptions,
    runs: LoadOptions,
    *,
    on_event: Listener = ignore,
) -> Alignments:
    """Align the words of two files, line by line, or of a file of "source ||| target"."""
    options.check()
    words = spaced_spans if options.pretokenised or target is None else word_spans
    spans = None if options.subwords else words
    pairs = read_fast_align(source) if target is None else read_text_pairs(Lines((source, target)))
    by_agreement = options.choose is not None
    if by_agreement and not pairs:
        raise BadInput((ArgumentName("choose"), " agreement: SRC has no pairs"))
    golds = None
    if options.gold is not None:
        golds = read_gold_links(options.gold, options.base or 0, pairs, words)
    folders = [name for name in (model, options.reverse_model) if name is not None]
    models = [runs.load(folder) for folder in folders]
    files, most = (source, target or source), options.max_length or MAX_TOKENS
    sides = models[0].translator.vocabularies.sides
    for number, pair in enumerate(pairs, start=1):
        for text, vocabulary, file in zip(pair, sides, files, strict=True):
            check_length((text,), vocabulary, most, f"{name_of(file)}:{number}")
    units = linked_units(models, spans)
    symmetrisation = options.symmetrise or "grow-diag-final"
    aligner = Aligner(models, spans, symmetrisation, options.multiply)
    methods = aligner.choose_methods(pairs, options.changes, by_agreement, on_event)
    for name, method in zip(("method", "reverse method"), methods, strict=False):
        on_event(Note(f"{name}: {method}"))
    links, figures = aligner.links(pairs, methods), list[AlignmentFigures]()
    if golds is not None:
        score = alignment_error_rate(links, golds)
        rates = {"aer": score.aer, "precision": score.precision, "recall": score.recall}
        figures.append(AlignmentFigures(rates))
    if options.count_kinds:
        counts: Counter[str] = Counter()
        for pair, pair_links in zip(pairs, links, strict=True):
            counts.update(link_types(pair_links, *map(len, units(*pair))))
        figures.append(AlignmentFigures(dict(counts)))
    return Alignments(pairs, links, units, figures)
