"""Word alignment from the attention of one model, or of two of opposite directions."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from regard.api import Model
from regard.cli.io.console import note
from regard.cli.io.line_io import check_length
from regard.cli.options import Symmetrisation
from regard.data.readers.aligned_pairs import Pairs
from regard.data.readers.text_files import name_of
from regard.ground.errors import BadInput
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
from regard.metrics.alignment import (
    AlignmentScore,
    GoldLinks,
    Links,
    alignment_error_rate,
    flipped,
    symmetrised,
)
from regard.text.words import Spans

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
        self, pairs: Pairs, changes: Mapping[str, Any], by_agreement: bool
    ) -> list[AlignmentMethod]:
        """The stored methods, or the two that agree most, with ``changes`` of single fields."""
        methods = [model.alignment_method for model in self.models]
        if by_agreement:
            window = pairs[:WINDOW]
            agreed = choose_agreeing_methods(*self._attention(window))
            methods, share = [agreed.forward, agreed.backward], f"{agreed.share:.4f}"
            note(f"chosen by agreement on {len(window)} pairs: {share} of the links are common")
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
            raise BadInput(f"--layer, --head: the decoder has {has}") from None
        method = replace(method, layer=layer, head=head)
    return method


def check_lengths(pairs: Pairs, files: tuple[str, str], model: Model, most: int) -> None:
    """Refuse a text of more than ``most`` tokens."""
    sides = model.translator.tokenizer.sides
    for number, pair in enumerate(pairs, start=1):
        for text, vocabulary, file in zip(pair, sides, files, strict=True):
            check_length((text,), vocabulary, most, f"{name_of(file)}:{number}")


def linked_units(models: list[Model], spans: Spans | None) -> Units:
    """Function that splits pairs into words, or without ``spans`` into subword tokens.

    Two models must have the same subword vocabularies.
    """
    if spans is not None:
        return lambda *pair: tuple([text[i:j] for i, j in spans(text)] for text in pair)
    sides = [model.translator.tokenizer.sides for model in models]
    for reverse in sides[1:]:
        if [side.fingerprint for side in reverse[::-1]] != [side.fingerprint for side in sides[0]]:
            raise BadInput("--subwords: the two models have different vocabularies")
    return lambda *pair: tuple(
        side.pieces(side.encode(text)) for side, text in zip(sides[0], pair, strict=True)
    )


def report_figures(figures: Mapping[str, object], as_json: bool) -> None:
    """Print figures in one line on standard error."""
    if as_json:
        note(json.dumps(figures))
    else:
        texts = {k: f"{v:.4f}" if isinstance(v, float) else f"{v:,}" for k, v in figures.items()}
        note("  ".join(f"{name} {text}" for name, text in texts.items()))
