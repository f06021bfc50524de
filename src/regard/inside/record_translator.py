"""The attention of a translation model on given sentence pairs, recorded by a tape."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from regard.data.packing import inference_batches
from regard.ground.batch import BatchLimits
from regard.ground.errors import BadInput
from regard.ground.tape import Tape
from regard.inside.align import AlignmentMethod, PairAttention, extract_links
from regard.inside.attention_map import AttentionMap
from regard.inside.attention_view import AttentionView
from regard.metrics.alignment import Links
from regard.tasks.translate import Translator
from regard.text.offsets import Segmentation, tokens_of_words, units
from regard.text.words import Spans, word_spans

PATTERNS = {
    "cross": "target.*cross.weights",
    "encoder": "source.blocks.*.attention.weights",
    "decoder": "target.blocks.*.attention.weights",
}
TOKENS, ROWS = 2_048, 32  # per batch: recorded weights are large
WINDOW = 512  # pairs whose weights are in memory at once
END, BEGIN = "⟨end⟩", "⟨begin⟩"


@dataclass(frozen=True, eq=False)
class PairRecord:
    """One pair in subwords, and (heads, queries, keys) weights by kind of attention and layer."""

    texts: tuple[str, str]
    source: Segmentation
    target: Segmentation
    weights: dict[str, list[np.ndarray]]

    def attention(self, spans: Spans | None = word_spans) -> PairAttention:
        """The cross-attention for alignment: by words, or by tokens without ``spans``."""
        source, target = (
            [[token] for token in range(len(cut.ids))]
            if spans is None
            else tokens_of_words(text, cut, spans)
            for text, cut in zip(self.texts, (self.source, self.target), strict=True)
        )
        return PairAttention(self.weights["cross"], target, source)


def record(
    translator: Translator,
    pairs: Sequence[tuple[str, str]],
    kinds: Sequence[str] = ("cross",),
    first: int = 1,
) -> Iterator[PairRecord]:
    """Run the model once on each pair and record its attention, in the order given.

    Error messages count pairs from ``first``.
    """
    cut = [
        (translator.text.source.segment(source), translator.text.target.segment(target))
        for source, target in pairs
    ]
    objective = translator.objective
    examples = [(source.ids, target.ids) for source, target in cut]
    translator.check_ids(examples, first)
    lengths = np.array([objective.length(example) for example in examples]).reshape(-1, 2)
    weights: dict[int, dict[str, list[np.ndarray]]] = {}
    for chosen in inference_batches(lengths, BatchLimits(TOKENS, ROWS, TOKENS)):
        batch = objective.collate([examples[i] for i in chosen]).to(translator.device)
        tape = Tape(*(PATTERNS[kind] for kind in kinds))
        with torch.inference_mode():
            objective(translator.model, batch, tape)
        if not tape.kept:
            raise BadInput("this model has no attention to show")
        for row, i in enumerate(chosen):
            source_length, target_length = lengths[i]
            sizes = {
                "cross": (target_length, source_length),
                "encoder": (source_length, source_length),
                "decoder": (target_length, target_length),
            }
            weights[i] = {kind: _row_weights(tape, kind, row, *sizes[kind]) for kind in kinds}
    for i, texts in enumerate(pairs):
        yield PairRecord(texts, *cut[i], weights.pop(i))


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


def look_translator(
    translator: Translator, source: str, target: str, *, subwords: bool = False
) -> AttentionView:
    """The attention of a forward pass that reads ``source`` and predicts ``target``."""
    (pair,) = record(translator, [(source, target)], tuple(PATTERNS))
    maps = _subword_maps(translator, pair) if subwords else _word_maps(pair)
    return AttentionView(title=source, maps=maps, summary=target)


def _row_weights(tape: Tape, kind: str, row: int, queries: int, keys: int) -> list[np.ndarray]:
    start, end = PATTERNS[kind].split("*")
    return [
        value[row, :, :queries, :keys].float().cpu().numpy()
        for name, value in tape.kept.items()
        if name.startswith(start) and name.endswith(end)
    ]


def _subword_maps(translator: Translator, pair: PairRecord) -> tuple[AttentionMap, ...]:
    source = (*translator.text.source.pieces(pair.source.ids), END)
    target = tuple(translator.text.target.pieces(pair.target.ids))
    written, fed = (*target, END), (BEGIN, *target)
    return _maps(pair, source, written, fed)


def _word_maps(pair: PairRecord) -> tuple[AttentionMap, ...]:
    """By words; a decoder row is the word it predicts, a column a word it has read."""
    source, source_groups = units(pair.texts[0], pair.source)
    target, target_groups = units(pair.texts[1], pair.target)
    fed_groups = [[0], *([token + 1 for token in group] for group in target_groups)]
    source_groups.append([len(pair.source.ids)])
    target_groups.append([len(pair.target.ids)])
    source.append(END)
    written, fed = [*target, END], [BEGIN, *target]
    by_words = {
        "cross": (written, source, target_groups, source_groups),
        "encoder": (source, source, source_groups, source_groups),
        "decoder": (written, fed, target_groups, fed_groups),
    }
    return tuple(each.merged(*by_words[each.name]) for each in _maps(pair))


def _maps(
    pair: PairRecord,
    source: Sequence[str] | None = None,
    written: Sequence[str] | None = None,
    fed: Sequence[str] | None = None,
) -> tuple[AttentionMap, ...]:
    source_length, target_length = len(pair.source.ids) + 1, len(pair.target.ids) + 1
    source = tuple(source or ("",) * source_length)
    written = tuple(written or ("",) * target_length)
    fed = tuple(fed or ("",) * target_length)
    sides = {"cross": (written, source), "encoder": (source, source), "decoder": (written, fed)}
    return tuple(
        AttentionMap(kind, *sides[kind], tuple(layers))
        for kind, layers in pair.weights.items()
        if layers
    )
