"""The attention of a translation model on given sentence pairs, recorded by a tape."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from regard.data.packing import inference_batches
from regard.ground.batch import BatchLimits
from regard.ground.tape import Tape
from regard.inside.alignment.align import AlignmentMethod, PairAttention, extract_links
from regard.metrics.alignment import Links
from regard.models.stack import require_cross_attention
from regard.tasks.runners.translator import Translator
from regard.text.offsets import Segmentation, tokens_of_words
from regard.text.words import Spans, word_spans

TOKENS, ROWS = 2_048, 32  # per batch: recorded weights are large
WINDOW = 512  # pairs whose weights are in memory at once


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
    model: Any = translator.model
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
