"""Word alignment from the attention of one model, or of two of opposite directions."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from regard.api import Model
from regard.cli.io.console import note
from regard.cli.io.line_io import check_length
from regard.cli.options import Symmetrisation
from regard.data.files.aligned_pairs import Pairs
from regard.data.files.text_files import name_of
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
Units = Callable[[str, str], tuple[list[str], ...]]  # from a pair to what is linked


@dataclass(frozen=True)
class Aligner:
    """One model, or two of opposite directions, whose cross-attention is read as links.

    ``spans`` finds the words of a text; without it subword tokens are linked.
    """

    models: list[Model]
    spans: Spans | None
    symmetrisation: Symmetrisation = "grow-diag-final"
    multiply: bool = False

    def choose_methods(
        self, pairs: Pairs, given: dict[str, Any], by_agreement: bool
    ) -> list[AlignmentMethod]:
        """The stored methods, or those that agree most, with the options ``given`` instead."""
        methods = [model.alignment_method for model in self.models]
        if by_agreement:
            methods = self._agreeing_methods(pairs[:WINDOW])
        ways = zip(self.models, methods, (pairs, _reversed(pairs)), strict=False)
        return [_with_options(*one, given) for one in ways]

    def links(self, pairs: Pairs, methods: list[AlignmentMethod]) -> list[Links]:
        """The links of each pair."""
        if len(self.models) == 1:
            return list(extract(self.models[0].translator, pairs, methods[0], self.spans))
        both = self._multiplied_links if self.multiply else self._separate_links
        return [symmetrised(*one, self.symmetrisation) for one in both(pairs, methods)]

    def _agreeing_methods(self, pairs: Pairs) -> list[AlignmentMethod]:
        agreed = choose_agreeing_methods(*self._attention(pairs))
        common = f"{agreed.share:.4f} of the links are common"
        note(f"chosen by agreement on {len(pairs)} pairs: {common}")
        return [agreed.forward, agreed.backward]

    def _separate_links(
        self, pairs: Pairs, methods: list[AlignmentMethod]
    ) -> Iterator[tuple[Links, Links]]:
        """The links of each direction, both as (source, target)."""
        forward, backward = (
            extract(model.translator, given, method, self.spans)
            for model, given, method in zip(
                self.models, (pairs, _reversed(pairs)), methods, strict=True
            )
        )
        return zip(forward, map(flipped, backward), strict=True)

    def _multiplied_links(
        self, pairs: Pairs, methods: list[AlignmentMethod]
    ) -> Iterator[tuple[Links, Links]]:
        """Alignments from the product of both attention matrices."""
        for start in range(0, len(pairs), WINDOW):
            both = zip(*self._attention(pairs[start : start + WINDOW]), strict=True)
            for forward, backward in both:
                yield multiply_directions(forward, backward, *methods)

    def _attention(self, pairs: Pairs) -> list[list[PairAttention]]:
        return [
            [one.attention(self.spans) for one in record(model.translator, given)]
            for model, given in zip(self.models, (pairs, _reversed(pairs)), strict=True)
        ]


def align_by_best_method(model: Model, dev: GoldPairs, test: GoldPairs) -> AlignmentScore:
    """Align a test set by the method that is best for a development set, which the model keeps."""
    tried = [one.attention() for one in record(model.translator, dev[0])]
    model.alignment_method, _ = choose_method(tried, dev[1])
    return alignment_error_rate(list(model.align(test[0])), test[1])


def _reversed(pairs: Pairs) -> Pairs:
    return [(target, source) for source, target in pairs]


def _with_options(
    model: Model, method: AlignmentMethod, pairs: Pairs, given: dict[str, Any]
) -> AlignmentMethod:
    """The method with the given options instead, if the model has such a layer and head."""
    method = replace(method, **{k: v for k, v in given.items() if v is not None})
    for pair in record(model.translator, pairs[:1]):
        layers = pair.attention().layers
        try:
            layer = range(len(layers))[method.layer]
            head = None if method.head is None else range(len(layers[layer]))[method.head]
        except IndexError:
            depth, heads = len(layers), min(map(len, layers))
            has = f"layers 0-{depth - 1} and heads 0-{heads - 1}"
            raise BadInput(f"the decoder has {has}") from None
        method = replace(method, layer=layer, head=head)
    return method


def check_lengths(pairs: Pairs, files: tuple[str, str], model: Model, most: int) -> None:
    """Refuse a text of more than ``most`` tokens."""
    sides = model.translator.tokenizer.sides
    for number, pair in enumerate(pairs, start=1):
        for text, vocabulary, file in zip(pair, sides, files, strict=True):
            check_length((text,), vocabulary, most, f"{name_of(file)}:{number}")


def linked_units(models: list[Model], spans: Spans | None) -> Units:
    """Words, or without ``spans`` subword tokens, which both directions must share."""
    if spans is not None:
        return lambda *pair: tuple([text[i:j] for i, j in spans(text)] for text in pair)
    sides = [(one.translator.tokenizer.source, one.translator.tokenizer.target) for one in models]
    for others in sides[1:]:
        if [one.fingerprint for one in others[::-1]] != [one.fingerprint for one in sides[0]]:
            raise BadInput("--subwords: the two models have different vocabularies")
    return lambda *pair: tuple(
        side.pieces(side.encode(text)) for side, text in zip(sides[0], pair, strict=True)
    )


def report_figures(figures: Mapping[str, object], as_json: bool) -> None:
    """Figures on one line of standard error."""
    if as_json:
        note(json.dumps(figures))
    else:
        written = {k: f"{v:.4f}" if isinstance(v, float) else f"{v:,}" for k, v in figures.items()}
        note("  ".join(f"{name} {value}" for name, value in written.items()))
