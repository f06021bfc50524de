"""What a translator looked at while it read and wrote given pairs, recorded by the tape."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from regard.data.packing import inference_batches
from regard.ground.batch import BatchLimits
from regard.ground.errors import BadInput
from regard.ground.tape import Tape
from regard.inside.align import Attended, Reading, links
from regard.inside.look import Look
from regard.inside.maps import Map
from regard.metrics.alignment import Links
from regard.tasks.translate import Translator
from regard.text.offsets import Segmentation, tokens_of_words, units
from regard.text.words import Spans, word_spans

PATTERNS = {
    "cross": "target.*cross.weights",
    "encoder": "source.blocks.*.attention.weights",
    "decoder": "target.blocks.*.attention.weights",
}
TOKENS, ROWS = 2_048, 32  # recorded weights are large: less at once than in translation
WINDOW = 512  # pairs whose weights are held at once
END, BEGIN = "⟨end⟩", "⟨begin⟩"


@dataclass(frozen=True, eq=False)
class Recorded:
    """One pair: its texts in pieces, and one (heads, queries, keys) array per layer and kind."""

    texts: tuple[str, str]
    source: Segmentation
    target: Segmentation
    weights: dict[str, list[np.ndarray]]

    def attended(self, spans: Spans | None = word_spans) -> Attended:
        """The cross-attention, as alignment reads it: by words, or by tokens without ``spans``."""
        source, target = (
            [[token] for token in range(len(cut.ids))]
            if spans is None
            else tokens_of_words(text, cut, spans)
            for text, cut in zip(self.texts, (self.source, self.target), strict=True)
        )
        return Attended(self.weights["cross"], target, source)


def record(
    translator: Translator,
    pairs: Sequence[tuple[str, str]],
    kinds: Sequence[str] = ("cross",),
    first: int = 1,
) -> Iterator[Recorded]:
    """Read and write each pair once and keep what was looked at, in the order given.

    Messages count pairs from ``first``.
    """
    cut = [
        (translator.text.source.segment(source), translator.text.target.segment(target))
        for source, target in pairs
    ]
    objective = translator.objective
    examples = [(source.ids, target.ids) for source, target in cut]
    translator.check_ids(examples, first)
    lengths = np.array([objective.length(one) for one in examples]).reshape(-1, 2)
    found: dict[int, dict[str, list[np.ndarray]]] = {}
    for chosen in inference_batches(lengths, BatchLimits(TOKENS, ROWS, TOKENS)):
        batch = objective.collate([examples[i] for i in chosen]).to(translator.device)
        tape = Tape(*(PATTERNS[kind] for kind in kinds))
        with torch.inference_mode():
            objective(translator.model, batch, tape)
        if not tape.kept:
            raise BadInput("this model has no attention: there is nothing that it looks at")
        for row, i in enumerate(chosen):
            source_length, target_length = lengths[i]
            sizes = {
                "cross": (target_length, source_length),
                "encoder": (source_length, source_length),
                "decoder": (target_length, target_length),
            }
            found[i] = {kind: _of_row(tape, kind, row, *sizes[kind]) for kind in kinds}
    for i, pair in enumerate(pairs):
        yield Recorded(pair, *cut[i], found.pop(i))


def align(
    translator: Translator,
    pairs: Sequence[tuple[str, str]],
    reading: Reading,
    spans: Spans | None = word_spans,
) -> Iterator[Links]:
    """Links between the words of each pair (without ``spans``: its tokens), by cross-attention."""
    for start in range(0, len(pairs), WINDOW):
        for recorded in record(translator, pairs[start : start + WINDOW], first=start + 1):
            yield links(recorded.attended(spans), reading)


def look(translator: Translator, source: str, target: str, *, subwords: bool = False) -> Look:
    """Everything the translator looks at while it reads ``source`` and writes ``target``."""
    (recorded,) = record(translator, [(source, target)], tuple(PATTERNS))
    maps = _subword_maps(translator, recorded) if subwords else _word_maps(recorded)
    return Look(title=source, maps=maps, summary=target)


def _of_row(tape: Tape, kind: str, row: int, queries: int, keys: int) -> list[np.ndarray]:
    wanted = PATTERNS[kind].split("*")
    return [
        value[row, :, :queries, :keys].float().cpu().numpy()
        for name, value in tape.kept.items()
        if name.startswith(wanted[0]) and name.endswith(wanted[1])
    ]


def _subword_maps(translator: Translator, recorded: Recorded) -> tuple[Map, ...]:
    source = (*translator.text.source.pieces(recorded.source.ids), END)
    target = tuple(translator.text.target.pieces(recorded.target.ids))
    written, fed = (*target, END), (BEGIN, *target)
    return _maps(recorded, source, written, fed)


def _word_maps(recorded: Recorded) -> tuple[Map, ...]:
    """The same by words; a row of the decoder is the word it predicts, a column one it has read."""
    source, source_groups = units(recorded.texts[0], recorded.source)
    target, target_groups = units(recorded.texts[1], recorded.target)
    fed_groups = [[0], *([token + 1 for token in group] for group in target_groups)]
    source_groups.append([len(recorded.source.ids)])
    target_groups.append([len(recorded.target.ids)])
    source.append(END)
    written, fed = [*target, END], [BEGIN, *target]
    by_words = {
        "cross": (written, source, target_groups, source_groups),
        "encoder": (source, source, source_groups, source_groups),
        "decoder": (written, fed, target_groups, fed_groups),
    }
    return tuple(one.merged(*by_words[one.name]) for one in _maps(recorded))


def _maps(
    recorded: Recorded,
    source: Sequence[str] | None = None,
    written: Sequence[str] | None = None,
    fed: Sequence[str] | None = None,
) -> tuple[Map, ...]:
    source_length, target_length = len(recorded.source.ids) + 1, len(recorded.target.ids) + 1
    source = tuple(source or ("",) * source_length)
    written = tuple(written or ("",) * target_length)
    fed = tuple(fed or ("",) * target_length)
    sides = {"cross": (written, source), "encoder": (source, source), "decoder": (written, fed)}
    return tuple(
        Map(kind, *sides[kind], tuple(layers))
        for kind, layers in recorded.weights.items()
        if layers
    )
