"""Phrases and entities, which masked LM chooses as wholes (ERNIE: Sun et al., 2019, section 3.2).

Phrases come from a lexicon, or from the labelled spans of tagged sentences. Wherever the tokens of
a phrase occur in a row they are one unit, all of whose tokens are chosen or none.
"""

import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import cast

import numpy as np

from regard.core.errors import BadInput
from regard.data.data_tables import FilesConfig
from regard.data.readers.examples import TaggedExample
from regard.data.readers.text_files import read_lines
from regard.metrics.entities import spans
from regard.text.tokenizers.encoder_tokenizer import EncoderTokenizer

Array = np.ndarray


class Phrases:
    """Texts of phrases, from a ``lexicon`` (file or phrases) and from ``tagged`` sentences."""

    def __init__(self, lexicon: str | Iterable[str], tagged: FilesConfig | None = None):
        self.file = lexicon if isinstance(lexicon, str) else None
        self.texts = () if isinstance(lexicon, str) else (*lexicon,)
        self.tagged = tagged

    def read(self, data: Path) -> None:
        """Read the files, which are named from the data root; raise BadInput if they are empty."""
        if self.file is not None:
            lines = (line.strip() for line in read_lines(data / self.file))
            self._add("lexicon", self.file, filter(None, lines))
        if self.tagged is not None:
            self._add("tagged", self.tagged.names, _entities(self.tagged, data))

    def _add(self, key: str, file: str, texts: Iterator[str]) -> None:
        if not (phrases := [*texts]):
            raise BadInput(f"objective.masked-lm.{key}: there are no phrases in {file}")
        self.texts = (*dict.fromkeys((*self.texts, *phrases)),)

    @property
    def fingerprint(self) -> str:
        """Hash of the phrases, on which the masks of a run depend."""
        content = "\n".join(self.texts).encode()
        return f", phrases {zlib.crc32(content):08x}"

    def finder(self, tokenizer: EncoderTokenizer) -> "PhraseFinder":
        """The finder of the phrases, as the tokenizer writes them with and without a space."""
        forms = [form for text in self.texts for form in (text, f" {text}")]
        texts = [
            piece.lstrip("▁#") for piece in tokenizer.words.pieces(range(len(tokenizer.words)))
        ]
        starts_V = np.array([text[:1].isalnum() for text in texts])
        ends_V = np.array([text[-1:].isalnum() for text in texts])
        phrases = tokenizer.words.encode_all(forms)
        return PhraseFinder(phrases, tokenizer.continues & starts_V, ends_V)


class PhraseFinder:
    """Finder of phrases of tokens: the longest at each place, from left to right.

    Masks of ids: a token of ``inner`` belongs to the word of the token before it, if that is one of
    ``before``; a phrase consists of whole words.
    """

    def __init__(self, phrases: Iterable[Iterable[int]], inner: Array, before: Array):
        self.inner, self.before, self.vocab = inner, before, len(inner)
        self.known = {phrase for ids in phrases if len(phrase := (*ids,)) > 1}
        lengths: dict[int, set[int]] = {}
        for phrase in self.known:
            lengths.setdefault(phrase[0] * self.vocab + phrase[1], set()).add(len(phrase))
        self.lengths = {pair: sorted(some, reverse=True) for pair, some in lengths.items()}
        self.pairs = np.array(sorted(lengths), np.int64)

    def continuations(self, tokens: Array, lengths: Array) -> Array:
        """Mask of the tokens that belong to the phrase of the token before, in rows end to end."""
        tokens, ends = np.asarray(tokens, np.int64), np.cumsum(lengths)
        pairs = tokens[:-1] * self.vocab + tokens[1:]
        inside = np.zeros(len(tokens) + 1, bool)  # of a word
        inside[1:-1] = self.before[tokens[:-1]] & self.inner[tokens[1:]]
        inside[ends] = False
        places = np.flatnonzero(np.isin(pairs, self.pairs) & ~inside[: len(pairs)])
        row_ends = ends[np.searchsorted(ends, places, side="right")]
        joined, free = np.zeros(len(tokens), bool), 0
        for begin, row_end in zip(places.tolist(), row_ends.tolist(), strict=True):
            for length in self.lengths[int(pairs[begin])] if begin >= free else ():
                end = begin + length
                whole = end <= row_end and not inside[end]
                if whole and tuple(tokens[begin:end].tolist()) in self.known:
                    joined[begin + 1 : end], free = True, end
                    break
        return joined


def _entities(files: FilesConfig, data: Path) -> Iterator[str]:
    """The words of every labelled span of tagged sentences."""
    for example in files.read(data, "tag", None):
        sentence = cast(TaggedExample, example)
        for span in spans(sentence.tags):
            yield " ".join(sentence.words[span.start : span.end])
