"""Word alignment from attention: links between words, extracted from cross-attention weights.

Bahdanau et al. (2014, arXiv:1409.0473) use the weights of the step that predicts a target word.
Chen et al. (2020, arXiv:2004.14837) use the next step ("shifted"), which has the word as its input
and often aligns it better. Two translation models of opposite directions align the same pairs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import torch

from regard.core.batch import BatchLimits
from regard.core.errors import BadInput
from regard.core.tape import Tape
from regard.data.batches.packing import inference_batches
from regard.inference.translator import Translator
from regard.inside.attention.attention_map import Groups, merge
from regard.metrics.links import AlignmentScore, GoldLinks, Links, alignment_error_rate, flipped
from regard.models.attention_site import AttentionSite, require_cross_attention
from regard.text.segmentation import Segmentation, tokens_of_words
from regard.text.words import Spans, word_spans
from regard.views.view_record import ViewRecord

TOKENS, ROWS = 2_048, 32  # per batch: recorded weights are large
WINDOW = 512  # pairs whose weights are in memory at once
SHARES = (1.0, 0.9, 0.7, 0.5)  # tried by choose_method


@dataclass(frozen=True)
class AlignmentMethod:
    """Method of extracting links from the cross-attention of a model.

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
        """Alignment method in the notes of a model; default: the last layer."""
        last = require_cross_attention(cross_attention).layers - 1
        fields = notes.get("alignment") or {"layer": last}
        try:
            return cls(**fields)
        except TypeError:
            reason = f"notes.alignment is no alignment method ({fields})"
            raise BadInput(f"config.json: {reason}") from None

    def __str__(self) -> str:
        heads = "mean of heads" if self.head is None else f"head {self.head}"
        parts = [f"layer {self.layer}", heads, "shifted" if self.shifted else "plain"]
        if self.share < 1:
            parts.append(f"links from {self.share:g} of the largest weight")
        if self.spurious:
            parts.append("no link where most weight lies on no word")
        return ", ".join(parts)


class PairAttention(NamedTuple):
    """Cross-attention of one sentence pair, and the tokens of every word on both sides.

    ``layers`` holds a (heads, target tokens + 1, source tokens) array per layer: the decoder reads
    BOS y1 … yn and predicts y1 … yn EOS. ``target`` groups the positions of y1 … yn from zero.
    """

    layers: Sequence[np.ndarray]
    target: Groups
    source: Groups


def extract_links(pair: PairAttention, method: AlignmentMethod) -> Links:
    """Extract the links of one sentence pair."""
    return select_links(word_attention(pair, method), method)


def choose_method(
    pairs: Sequence[PairAttention], golds: Sequence[GoldLinks], shares: Sequence[float] = SHARES
) -> tuple[AlignmentMethod, AlignmentScore]:
    """Choose the method with the lowest alignment error rate on a development set.

    Tries every layer (the mean of its heads), plain and shifted, every share, with and without
    spurious words; ties go to the first, simplest method.
    """
    if not pairs:
        raise ValueError("no sentence pairs to choose an alignment method on")
    scored: list[tuple[AlignmentMethod, AlignmentScore]] = []
    for simplest in candidate_methods(pairs[0]):
        weights = [word_attention(pair, simplest) for pair in pairs]
        for share, spurious in product(shares, (False, True)):
            method = replace(simplest, share=share, spurious=spurious)
            hypotheses = [select_links(weights_LS, method) for weights_LS in weights]
            scored.append((method, alignment_error_rate(hypotheses, golds)))
    return min(scored, key=lambda method_and_score: method_and_score[1].aer)


def candidate_methods(pair: PairAttention) -> list[AlignmentMethod]:
    """Methods of every layer, plain and shifted, that link each target word to its argmax."""
    settings = product(range(len(pair.layers)), (False, True))
    return [AlignmentMethod(layer, shifted=shifted) for layer, shifted in settings]


def word_attention(pair: PairAttention, method: AlignmentMethod) -> np.ndarray:
    """Attention (target words, source words); weight outside of words is left out."""
    weights_HLS = pair.layers[method.layer]
    weights_LS = weights_HLS.mean(axis=0) if method.head is None else weights_HLS[method.head]
    rows_LS = weights_LS[1:] if method.shifted else weights_LS[:-1]
    return merge(rows_LS, pair.target, pair.source)


def select_links(weights_LS: np.ndarray, method: AlignmentMethod) -> Links:
    """Links from attention (target words, source words), by ``share`` and ``spurious``."""
    peak_L1 = weights_LS.max(axis=1, keepdims=True, initial=0.0)
    linked_LS = (weights_LS >= method.share * peak_L1) & (peak_L1 > 0)
    if method.spurious:
        linked_LS &= weights_LS.sum(axis=1, keepdims=True) >= 0.5
    return frozenset((int(source), int(target)) for target, source in np.argwhere(linked_LS))


class AgreeingMethods(NamedTuple):
    """Alignment method for each direction, and the share of links they have in common (0-1)."""

    forward: AlignmentMethod
    backward: AlignmentMethod
    share: float


def choose_agreeing_methods(
    forward: Sequence[PairAttention], backward: Sequence[PairAttention]
) -> AgreeingMethods:
    """Choose the two methods that agree most, of all layers, plain and shifted; no gold is needed.

    Two independently trained models have little in common but the alignment, so they are likely to
    be right where they agree (Chen et al., 2020, arXiv:2004.14837, choose layers this way). The
    share is 2 |A ∩ B| / (|A| + |B|) over all pairs; ties go to the first, simplest methods.
    """
    if not forward or len(forward) != len(backward):
        raise ValueError(f"{len(forward)} pairs forward, {len(backward)} backward")
    ours, theirs = candidate_methods(forward[0]), candidate_methods(backward[0])
    ours_MP = np.stack([_link_indicators(forward, method, flip=False) for method in ours])
    theirs_MP = np.stack([_link_indicators(backward, method, flip=True) for method in theirs])
    total = ours_MP.sum(axis=1)[:, None] + theirs_MP.sum(axis=1)
    share = 2 * (ours_MP @ theirs_MP.T) / np.maximum(total, 1)
    best = np.unravel_index(share.argmax(), share.shape)
    return AgreeingMethods(ours[best[0]], theirs[best[1]], float(share[best]))


def multiply_directions(
    forward: PairAttention, backward: PairAttention, ours: AlignmentMethod, theirs: AlignmentMethod
) -> tuple[Links, Links]:
    """Links of both directions, (source, target) each, from the product of their weights.

    The product is large only if both directions give weight to a pair of words, so each direction
    corrects the other.
    """
    product_LS = word_attention(forward, ours) * word_attention(backward, theirs).T
    ours, theirs = (replace(method, spurious=False) for method in (ours, theirs))
    return select_links(product_LS, ours), flipped(select_links(product_LS.T, theirs))


def _link_indicators(
    pairs: Sequence[PairAttention], method: AlignmentMethod, flip: bool
) -> np.ndarray:
    """Vector over all pairs of words of all sentences: 1 if they are linked, else 0."""
    cells = []
    for pair in pairs:
        linked = np.zeros((len(pair.source), len(pair.target)), dtype=np.float32)
        for link in extract_links(pair, method):
            linked[link] = 1
        cells.append((linked.T if flip else linked).ravel())
    return np.concatenate(cells)


@dataclass(frozen=True, eq=False)
class PairRecord:
    """Sentence pair in subwords, with its cross-attention, (heads, queries, keys) per layer."""

    texts: tuple[str, str]
    source: Segmentation
    target: Segmentation
    layers: list[np.ndarray]

    def attention(self, spans: Spans | None = word_spans) -> PairAttention:
        """Cross-attention for alignment: by words, or by tokens without ``spans``."""
        source, target = (
            [[token] for token in range(len(cut.ids))]
            if spans is None
            else tokens_of_words(text, cut, spans)
            for text, cut in zip(self.texts, (self.source, self.target), strict=True)
        )
        return PairAttention(self.layers, target, source)


TextPairs = Sequence[tuple[str, str]]


def record(translator: Translator, pairs: TextPairs, first: int = 1) -> Iterator[PairRecord]:
    """Run the model once on each pair and record its cross-attention, in order.

    Error messages count pairs from ``first``.
    """
    model, objective = translator.module, translator.objective
    names = require_cross_attention(model.cross_attention).weights
    segment = translator.vocabularies.source.segment, translator.vocabularies.target.segment
    cut = [(segment[0](source), segment[1](target)) for source, target in pairs]
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
    model: Translator, pairs: TextPairs, method: AlignmentMethod, spans: Spans | None = word_spans
) -> Iterator[Links]:
    """Align the words of each pair (without ``spans``: its tokens) by cross-attention."""
    for start in range(0, len(pairs), WINDOW):
        for pair in record(model, pairs[start : start + WINDOW], first=start + 1):
            yield extract_links(pair.attention(spans), method)


def alignment_record(
    title: str,
    source: Sequence[str],
    target: Sequence[str],
    weights_LS: np.ndarray,
    links: Links = frozenset(),
    gold: GoldLinks | None = None,
) -> ViewRecord:
    """Cross-attention (target words, source words) with links, and those of a gold standard."""
    known = {} if gold is None else {"sure": gold.sure, "possible": gold.possible - gold.sure}
    return ViewRecord.of(
        "alignment",
        title=title,
        source_words=source,
        target_words=target,
        weights=weights_LS.astype(np.float32),
        **{name: sorted(pairs) for name, pairs in {"links": links, **known}.items()},
    )
