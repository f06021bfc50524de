"""Word alignment from attention: links between words, extracted from cross-attention weights.

Bahdanau et al. (2014, arXiv:1409.0473) use the weights of the step that predicts a target word.
Chen et al. (2020, arXiv:2004.14837) use the next step ("shifted"), which has the word as its input
and often aligns it better. Two translation models of opposite directions align the same pairs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple, cast

import numpy as np
import torch

from regard.data.packing import inference_batches
from regard.ground.batch import BatchLimits
from regard.ground.errors import BadInput
from regard.ground.tape import Tape
from regard.inference.translator import Translator
from regard.inside.attention.attention_map import Groups, merge
from regard.metrics.alignment import AlignmentScore, GoldLinks, Links, alignment_error_rate, flipped
from regard.models.attention_site import AttentionSite, require_cross_attention
from regard.models.encoder_decoder import EncoderDecoderModule
from regard.text.offsets import Segmentation, tokens_of_words
from regard.text.words import Spans, word_spans

TOKENS, ROWS = 2_048, 32  # per batch: recorded weights are large
WINDOW = 512  # pairs whose weights are in memory at once


@dataclass(frozen=True)
class AlignmentMethod:
    """How links are extracted from the cross-attention of a model.

    ``head`` None averages the heads of ``layer``. ``shifted`` uses the decoder step whose input is
    the target token, instead of the step that predicts it. A target word is linked to every source
    word with at least ``share`` of its largest weight: 1 is the argmax (ties are all linked). With
    ``spurious`` it has no link if more than half of its weight lies outside all words, for example
    on the end-of-sentence token.
    """

    layer: int
    head: int | None = None
    shifted: bool = False
    share: float = 1.0
    spurious: bool = False

    @classmethod
    def noted(
        cls, notes: Mapping[str, Any], cross_attention: AttentionSite | None
    ) -> "AlignmentMethod":
        """The method that the notes of a model describe; by default that of its last layer."""
        last = require_cross_attention(cross_attention).layers - 1
        fields = notes.get("alignment") or {"layer": last}
        try:
            return cls(**fields)
        except TypeError:
            raise BadInput(
                f"config.json: notes.alignment is no alignment method ({fields})"
            ) from None

    def __str__(self) -> str:
        heads = "mean of heads" if self.head is None else f"head {self.head}"
        parts = [f"layer {self.layer}", heads, "shifted" if self.shifted else "plain"]
        if self.share < 1:
            parts.append(f"links from {self.share:g} of the largest weight")
        if self.spurious:
            parts.append("no link where most weight lies on no word")
        return ", ".join(parts)


class PairAttention(NamedTuple):
    """The cross-attention of one sentence pair, and the tokens of every word on both sides.

    ``layers`` holds a (heads, target tokens + 1, source tokens) array per layer: the decoder reads
    BOS y1 … yn and predicts y1 … yn EOS. ``target`` groups the positions of y1 … yn from zero.
    """

    layers: Sequence[np.ndarray]
    target: Groups
    source: Groups


def extract_links(pair: PairAttention, method: AlignmentMethod) -> Links:
    """The links of one sentence pair."""
    return select_links(word_attention(pair, method), method)


def choose_method(
    pairs: Sequence[PairAttention],
    golds: Sequence[GoldLinks],
    shares: Sequence[float] = (1.0, 0.9, 0.7, 0.5),
) -> tuple[AlignmentMethod, AlignmentScore]:
    """The method with the lowest alignment error rate on these sentences (a development set).

    Tries every layer (the mean of its heads), plain and shifted, every share, with and without
    spurious words; among equal scores the first, simplest method wins.
    """
    if not pairs:
        raise ValueError("no sentence pairs to choose an alignment method on")
    scored = _score_methods(pairs, golds, shares)
    return min(scored, key=lambda method_and_score: method_and_score[1].aer)


def _score_methods(
    pairs: Sequence[PairAttention], golds: Sequence[GoldLinks], shares: Sequence[float]
) -> Iterator[tuple[AlignmentMethod, AlignmentScore]]:
    for simplest in candidate_methods(pairs[0]):
        weights = [word_attention(pair, simplest) for pair in pairs]
        for share, spurious in product(shares, (False, True)):
            method = replace(simplest, share=share, spurious=spurious)
            hypotheses = [select_links(weights_LS, method) for weights_LS in weights]
            yield method, alignment_error_rate(hypotheses, golds)


def candidate_methods(pair: PairAttention) -> list[AlignmentMethod]:
    """Every layer, plain and shifted; each target word is linked to its largest weight."""
    layers = range(len(pair.layers))
    return [
        AlignmentMethod(layer, shifted=shifted) for layer, shifted in product(layers, (False, True))
    ]


def word_attention(pair: PairAttention, method: AlignmentMethod) -> np.ndarray:
    """(target words, source words); a row sums to the share of the weight that lies on words."""
    weights_HLS = pair.layers[method.layer]
    weights_LS = weights_HLS.mean(axis=0) if method.head is None else weights_HLS[method.head]
    rows_LS = weights_LS[1:] if method.shifted else weights_LS[:-1]
    return merge(rows_LS, pair.target, pair.source)


def select_links(weights_LS: np.ndarray, method: AlignmentMethod) -> Links:
    """The links of (target words, source words), by the share and spurious rule of ``method``."""
    peak_L1 = weights_LS.max(axis=1, keepdims=True, initial=0.0)
    linked_LS = (weights_LS >= method.share * peak_L1) & (peak_L1 > 0)
    if method.spurious:
        linked_LS &= weights_LS.sum(axis=1, keepdims=True) >= 0.5
    return frozenset((int(source), int(target)) for target, source in np.argwhere(linked_LS))


class AgreeingMethods(NamedTuple):
    """An alignment method for each direction, and the share of links they have in common (0-1)."""

    forward: AlignmentMethod
    backward: AlignmentMethod
    share: float


def choose_agreeing_methods(
    forward: Sequence[PairAttention], backward: Sequence[PairAttention]
) -> AgreeingMethods:
    """The two methods that agree most, of all layers, plain and shifted; no gold is needed.

    Two models that were trained independently have little in common but the alignment, so where
    they agree most they are likely to be right (Chen et al., 2020, arXiv:2004.14837, choose their
    layers this way). The share is 2 |A ∩ B| / (|A| + |B|) over all pairs; among equal shares the
    first, simplest methods win.
    """
    if not forward or len(forward) != len(backward):
        raise ValueError(f"{len(forward)} pairs forward, {len(backward)} backward")
    ours, theirs = candidate_methods(forward[0]), candidate_methods(backward[0])
    forward_links = np.stack([_link_indicators(forward, method, flip=False) for method in ours])
    backward_links = np.stack([_link_indicators(backward, method, flip=True) for method in theirs])
    total = forward_links.sum(axis=1)[:, None] + backward_links.sum(axis=1)
    share = 2 * (forward_links @ backward_links.T) / np.maximum(total, 1)
    best = np.unravel_index(share.argmax(), share.shape)
    return AgreeingMethods(ours[best[0]], theirs[best[1]], float(share[best]))


def multiply_directions(
    forward: PairAttention, backward: PairAttention, ours: AlignmentMethod, theirs: AlignmentMethod
) -> tuple[Links, Links]:
    """Links of both directions, (source, target) each, from the product of their weights.

    The product is large only for pairs of words to which both directions give weight, so each
    direction is corrected by the other.
    """
    product_LS = word_attention(forward, ours) * word_attention(backward, theirs).T
    ours, theirs = (replace(method, spurious=False) for method in (ours, theirs))
    return select_links(product_LS, ours), flipped(select_links(product_LS.T, theirs))


def _link_indicators(
    pairs: Sequence[PairAttention], method: AlignmentMethod, flip: bool
) -> np.ndarray:
    """1 for every linked pair of words, 0 for every other, of all sentences end to end."""
    cells = []
    for pair in pairs:
        linked = np.zeros((len(pair.source), len(pair.target)), dtype=np.float32)
        for link in extract_links(pair, method):
            linked[link] = 1
        cells.append((linked.T if flip else linked).ravel())
    return np.concatenate(cells)


@dataclass(frozen=True, eq=False)
class PairRecord:
    """One pair in subwords, and its cross-attention, (heads, queries, keys) for each layer."""

    texts: tuple[str, str]
    source: Segmentation
    target: Segmentation
    layers: list[np.ndarray]

    def attention(self, spans: Spans | None = word_spans) -> PairAttention:
        """The cross-attention for alignment: by words, or by tokens without ``spans``."""
        source, target = (
            [[token] for token in range(len(cut.ids))]
            if spans is None
            else tokens_of_words(text, cut, spans)
            for text, cut in zip(self.texts, (self.source, self.target), strict=True)
        )
        return PairAttention(self.layers, target, source)


def record(
    translator: Translator, pairs: Sequence[tuple[str, str]], first: int = 1
) -> Iterator[PairRecord]:
    """Run the model once on each pair and record its cross-attention, in the order given.

    Error messages count pairs from ``first``.
    """
    model = cast(EncoderDecoderModule, translator.model)
    names = require_cross_attention(model.cross_attention).weights
    cut = [
        (translator.tokenizer.source.segment(source), translator.tokenizer.target.segment(target))
        for source, target in pairs
    ]
    objective = translator.objective
    examples = [(source.ids, target.ids) for source, target in cut]
    translator.check_ids(examples, first)
    lengths = np.array([objective.length(example) for example in examples]).reshape(-1, 2)
    layers: dict[int, list[np.ndarray]] = {}
    limits = BatchLimits(TOKENS, min(ROWS, translator.batch_size), TOKENS)
    for chosen in inference_batches(lengths, limits):
        batch = objective.collate([examples[i] for i in chosen]).to(translator.device)
        tape = Tape(*names)
        with torch.inference_mode():
            model(batch.inputs, tape=tape)
        for row, i in enumerate(chosen):
            keys, queries = lengths[i]
            weights = (tape.records[name][row, :, :queries, :keys] for name in names)
            layers[i] = [weights_HLS.float().cpu().numpy() for weights_HLS in weights]
    for i, texts in enumerate(pairs):
        yield PairRecord(texts, *cut[i], layers.pop(i))


def align(
    translator: Translator,
    pairs: Sequence[tuple[str, str]],
    method: AlignmentMethod,
    spans: Spans | None = word_spans,
) -> Iterator[Links]:
    """Links between the words of each pair (without ``spans``: its tokens), by cross-attention."""
    for start in range(0, len(pairs), WINDOW):
        for pair in record(translator, pairs[start : start + WINDOW], first=start + 1):
            yield extract_links(pair.attention(spans), method)
