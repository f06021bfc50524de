"""Attention weights of many inputs, over words, with what measures of heads need to know."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch

from regard.core.batch import BatchLimits
from regard.core.tape import Tape
from regard.data.batches.packing import inference_batches
from regard.inference.inputs import InputLimits
from regard.inference.model_runner import ModelRunner
from regard.inside.attention.attention_map import merge
from regard.models.attention_site import AttentionSite
from regard.text.segmentation import LabelledRow, LabelledRows, TokenLabels, tokens_of_words
from regard.text.tokenizers.row_tokenizer import require_tokenizer
from regard.text.words import Span

BATCH = BatchLimits(2_048, 32, 2_048)  # recorded weights are large


@dataclass(frozen=True, eq=False)
class HeadWeights:
    """Weights of one site on one input, over words or tokens: (heads, queries, keys) by layer.

    ``query_special`` and ``key_special`` are masks of special tokens; ``ids`` are the keys as ids
    of tokens or as numbers of words. Where ``allowed`` (queries, keys) is false, no weight can be.
    ``rare`` is the mask of the least frequent words among the keys. ``grid`` has the rows and
    columns of an image, whose patches come after its special tokens.
    """

    layers: tuple[np.ndarray, ...]
    query_special: np.ndarray
    key_special: np.ndarray
    allowed: np.ndarray
    within: bool
    ids: np.ndarray
    rare: np.ndarray | None = None
    grid: tuple[int, int] | None = None


def read_words(model: ModelRunner, words: Sequence[str]) -> LabelledRows:
    """Row of a sentence whose words are given, on the side that reads; a decoder reads nothing."""
    tokenizer, side = require_tokenizer(model.tokenizer), model.facts.sides[0]
    text, spans, start = " ".join(words), [], 0
    for word in words:
        spans.append(Span(start, start + len(word)))
        start += len(word) + 1
    rows = tokenizer.label(text, "" if len(model.facts.sides) > 1 else None)
    reader = tokenizer.of_side(side)
    cut, first = reader.words.segment(text), reader.template.text_start("A")
    groups = tokens_of_words(text, cut, lambda _: spans)
    labels = rows[side].keys
    before = [at for at in labels.specials if at < first]
    after = [at for at in labels.specials if at >= first]
    names = [*(labels.subwords[at] for at in before), *words]
    own = TokenLabels(
        labels.subwords,
        (*names, *(labels.subwords[at] for at in after)),
        (
            *((at,) for at in before),
            *(tuple(first + token for token in group) for group in groups),
            *((at,) for at in after),
        ),
        labels.specials,
    )
    return {**rows, side: rows[side]._replace(queries=own, keys=own)}


def fits(model: ModelRunner, rows: LabelledRows) -> bool:
    """Whether the model has positions for all tokens of an input, and the input has words."""
    for side, row in rows.items():
        longest = InputLimits.of(getattr(model.module, side)).longest
        if longest is not None and len(row.row.tokens) > longest:
            return False
    return bool(len(rows[model.facts.sides[0]].row.tokens))


def run_heads(
    model: ModelRunner, inputs: Sequence[LabelledRows], sites: Sequence[AttentionSite]
) -> Iterator[tuple[int, AttentionSite, tuple[np.ndarray, ...]]]:
    """Run a model; yield the number of each input, a site, and its weights over tokens by layer."""
    costs = np.array([max(len(row.queries.subwords) for row in each.values()) for each in inputs])
    limits = BatchLimits(BATCH.tokens, 1, BATCH.longest) if model.reads_images else BATCH
    names = [name for site in sites for name in site.weights_with_heads]
    for numbers in inference_batches(costs, limits):
        tape = Tape(*names)
        with torch.inference_mode():
            model.run([inputs[number] for number in numbers], tape)
        for site in sites:
            recorded = {
                name: tape.records[name].float().cpu().numpy() for name in site.weights_with_heads
            }
            for place, number in enumerate(numbers):
                queries, keys = _labels(inputs[number], site)
                size = len(queries.subwords), len(keys.subwords)
                own = {key: each[place, :, : size[0], : size[1]] for key, each in recorded.items()}
                none = np.zeros((0, *size), np.float32)  # of a layer without heads
                yield number, site, tuple(own.get(name, none) for name in site.weights)


def over_words(
    rows: LabelledRows, site: AttentionSite, layers: Sequence[np.ndarray], counts: Mapping[str, int]
) -> HeadWeights:
    """Weights over words; ``counts`` are the frequencies of words, in lower case."""
    queries, keys = _labels(rows, site)
    allowed_LS = _allowed(site, len(queries.subwords), len(keys.subwords))
    merged = tuple(merge(each, queries.groups, keys.groups) for each in layers)
    words = [word.lower() for word in keys.words]
    numbers = {word: number for number, word in enumerate(dict.fromkeys(words))}
    special, asking = keys.special_words, queries.special_words
    frequencies = np.array([counts.get(word, 0) for word in words])
    rare = None
    if counts and not special.all():
        rare = ~special & (frequencies == frequencies[~special].min())
    return HeadWeights(
        merged,
        asking & ~asking.all(),  # the query of a pool counts
        special,
        merge(allowed_LS, queries.groups, keys.groups) > 0,
        site.within,
        np.array([numbers[word] for word in words]),
        rare,
        getattr(rows[site.key_side], "grid", None),
    )


def over_tokens(
    rows: LabelledRows, site: AttentionSite, layers: Sequence[np.ndarray]
) -> HeadWeights:
    """Weights over tokens."""
    row, (queries, keys) = cast(LabelledRow, rows[site.side]), _labels(rows, site)
    size = len(queries.subwords), len(keys.subwords)
    special_L, special_S = np.zeros(size[0], bool), np.zeros(size[1], bool)
    special_L[[*queries.specials]] = special_S[[*keys.specials]] = True
    ids = np.asarray(row.row.tokens)
    return HeadWeights(tuple(layers), special_L, special_S, _allowed(site, *size), site.within, ids)


def _labels(rows: LabelledRows, site: AttentionSite) -> tuple[TokenLabels, TokenLabels]:
    """Names of the queries and keys of a site."""
    pool = TokenLabels.special("pool")
    queries = rows[site.query_side].queries if site.query_side in rows else pool
    return queries, rows[site.key_side].keys


def _allowed(site: AttentionSite, queries: int, keys: int) -> np.ndarray:
    """Attention mask (queries, keys)."""
    return np.tri(queries, keys, dtype=bool) if site.causal else np.ones((queries, keys), bool)
