"""Heads as parsers: which syntactic relation the largest weight of a head finds.

As Clark et al. (2019, arXiv:1906.04341, section 4.2): over words, without special tokens and
without the word itself, the largest weight is a prediction. For each relation the best head is
chosen on a development set and scored on a test set, beside the best fixed offset.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from regard.core.errors import BadInput
from regard.data.readers.conll import TreebankSentence
from regard.inference.model_runner import ModelRunner
from regard.inside.heads.head_weights import HeadWeights, fits, over_words, read_words, run_heads
from regard.metrics.intervals import Interval, interval, resampled
from regard.models.attention_site import AttentionSite

LEAST = 100  # instances of a relation, on the development set and on the test set
MARGIN = 0.1  # over the best fixed offset, for a syntactic head (Voita et al., 2019, section 5.2)
FARTHEST = 6  # words: the largest fixed offset that is tried
NO_COUNTS: Mapping[str, int] = MappingProxyType({})
ALL = "all"  # every relation but the root
READINGS = ("from dependent", "to dependent", "from head")
"""How weights are read. The dependent attends most to its head; the head is the word that attends
most to the dependent (Clark's transposed matrix); the head attends most to the dependent."""


@dataclass(frozen=True, eq=False)
class ParsedWords:
    """All words of a treebank with a head, and whether each head of a site finds it.

    ``hits`` is (readings, layers, heads, words); the other arrays have one value for each word: the
    relation, the offset of its head, and the number of its sentence.
    """

    relations: np.ndarray
    offsets: np.ndarray
    sentences: np.ndarray
    hits: np.ndarray
    skipped: int = 0


@dataclass(frozen=True)
class RelationScore:
    """Best head of a relation, chosen on the development set and scored on the test set.

    ``accuracy`` and ``offset_accuracy`` are shares of the ``count`` instances in the test set, with
    95% intervals over resampled sentences; ``difference`` is the first minus the second.
    """

    relation: str
    count: int
    layer: int
    head: int
    reading: str
    accuracy: float
    interval: Interval
    offset: int
    offset_accuracy: float
    difference: float
    difference_interval: Interval

    @property
    def syntactic(self) -> bool:
        """Whether the head beats the best offset by ``MARGIN``, and not by chance."""
        return self.difference >= MARGIN and self.difference_interval.low > 0


def parsing_site(model: ModelRunner) -> AttentionSite:
    """Self-attention over the text that a model reads."""
    reading = model.facts.sides[0]
    for site in model.sites:
        if site.within and site.side == reading and not model.reads_images:
            return site
    raise BadInput("treebank: this model has no self-attention over the words of a text")


def parse_with_heads(
    model: ModelRunner,
    sentences: Sequence[TreebankSentence],
    counts: Mapping[str, int] = NO_COUNTS,
    measure: Callable[[HeadWeights], None] | None = None,
) -> ParsedWords:
    """Run a model on a treebank, and compare the predictions of every head with its trees.

    Sentences with more tokens than the model has positions are left out. ``measure`` gets the
    weights of each sentence, with the rare words by the ``counts`` of words.
    """
    site = parsing_site(model)
    inputs = [read_words(model, sentence.words) for sentence in sentences]
    fitting = [number for number, rows in enumerate(inputs) if fits(model, rows)]
    heads = max(site.heads)
    hits: dict[int, np.ndarray] = {}
    chosen = [inputs[number] for number in fitting]
    for place, _, layers in run_heads(model, chosen, [site]):
        words = over_words(chosen[place], site, layers, counts)
        if measure is not None:
            measure(words)
        inner = ~words.key_special
        gold = np.array(sentences[fitting[place]].heads)
        own = np.zeros((len(READINGS), site.layers, heads, len(gold)), bool)
        for layer, weights_HLS in enumerate(words.layers):
            of_layer = find_heads(weights_HLS[:, inner][..., inner], gold)
            own[:, layer, : of_layer.shape[1]] = of_layer
        hits[place] = own
    return _join([sentences[number] for number in fitting], hits, len(inputs) - len(fitting))


def find_heads(weights_HLS: np.ndarray, gold_L: np.ndarray) -> np.ndarray:
    """Whether each head finds the head of each word, (readings, heads, words), by ``READINGS``.

    A row or column without weight predicts nothing; roots are never found.
    """
    words = len(gold_L)
    others_HLS = np.where(np.eye(words, dtype=bool), 0.0, weights_HLS)
    down_HL = np.where(others_HLS.max(-1, initial=0) > 0, others_HLS.argmax(-1), -2)
    across_HL = np.where(others_HLS.max(-2, initial=0) > 0, others_HLS.argmax(-2), -2)
    rooted = gold_L < 0
    back_HL = down_HL[:, np.where(rooted, 0, gold_L)] == np.arange(words)
    return np.stack([down_HL == gold_L, across_HL == gold_L, back_HL]) & ~rooted


def score_relations(
    dev: ParsedWords, test: ParsedWords, least: int = LEAST
) -> tuple[RelationScore, ...]:
    """Score each relation with ``least`` instances in both sets, the most frequent first."""
    counts = [Counter(each.relations.tolist()) for each in (dev, test)]
    named = [name for name, n in counts[1].most_common() if min(n, counts[0][name]) >= least]
    total = min(len(each.relations) for each in (dev, test))
    every = [ALL, *named] if total >= least and total else []
    return tuple(_score(relation, dev, test) for relation in every)


def _score(relation: str, dev: ParsedWords, test: ParsedWords) -> RelationScore:
    on_dev, on_test = (_instances(each, relation) for each in (dev, test))
    rates = dev.hits[..., on_dev].mean(-1)
    reading, layer, head = (int(at) for at in np.unravel_index(rates.argmax(), rates.shape))
    offset = _best_offset(dev.offsets[on_dev])
    hit_N = test.hits[reading, layer, head, on_test]
    by_offset_N = test.offsets[on_test] == offset
    columns = (hit_N, by_offset_N, np.ones(len(hit_N)))
    _, sentence_N = np.unique(test.sentences[on_test], return_inverse=True)
    sums = [np.bincount(sentence_N, each) for each in columns]
    statistics = np.stack(sums, axis=1).astype(np.float64)
    return RelationScore(
        relation,
        len(hit_N),
        layer,
        head,
        READINGS[reading],
        float(hit_N.mean()),
        interval(resampled(statistics, lambda sums: sums[0] / sums[2])),
        offset,
        float(by_offset_N.mean()),
        float(hit_N.mean() - by_offset_N.mean()),
        interval(resampled(statistics, lambda sums: (sums[0] - sums[1]) / sums[2])),
    )


def _instances(words: ParsedWords, relation: str) -> np.ndarray:
    """Indices of the words with a relation."""
    if relation == ALL:
        return np.arange(len(words.relations))
    return np.flatnonzero(words.relations == relation)


def _best_offset(offsets: np.ndarray) -> int:
    """Most frequent offset of a head, at most ``FARTHEST`` words away."""
    near = [offset for offset in range(-FARTHEST, FARTHEST + 1) if offset]
    return max(near, key=lambda offset: int((offsets == offset).sum()))


def _join(
    sentences: Iterable[TreebankSentence], hits: dict[int, np.ndarray], skipped: int
) -> ParsedWords:
    """Words of all sentences that are not roots."""
    relations, offsets, numbers, by_sentence = [], [], [], []
    for number, sentence in enumerate(sentences):
        gold = np.array(sentence.heads)
        dependent = np.flatnonzero(gold >= 0)
        relations += [sentence.relations[at] for at in dependent]
        offsets.append(gold[dependent] - dependent)
        numbers.append(np.full(len(dependent), number))
        by_sentence.append(hits[number][..., dependent])
    if not relations:
        raise BadInput("treebank: no word has a head")
    places = np.concatenate(offsets), np.concatenate(numbers)
    return ParsedWords(np.array(relations), *places, np.concatenate(by_sentence, axis=-1), skipped)
