"""Base classes of tokenizers with one vocabulary, which build rows by a template."""

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from regard.core.batch import Ids, TokenRow
from regard.core.errors import BadInput
from regard.core.reading import Reading, RowReading
from regard.text.segmentation import LabelledInput, LabelledRow, RowWithWords, TokenLabels
from regard.text.templates import TEXTS, ContextWindow, RowBuilder, Template
from regard.text.tokenizers.subwords import Subwords
from regard.text.vocabulary import (
    BEGIN,
    END,
    MISSING,
    Lexicon,
    Spelling,
    WholeWords,
    check_sizes,
    describe,
    encode_beginnings,
    token_count,
)
from regard.text.words import one_or_two_texts, text_or_pair, word_spans


class RowTokenizer(RowReading):
    """Base class of tokenizers with one vocabulary."""

    words: Subwords

    def __repr__(self) -> str:
        return f"{type(self).__name__}({describe(self.words, self.special)})"

    @property
    def special(self) -> Collection[int] | None:
        """The ids of special tokens; None: those that the vocabulary names."""
        return None

    @property
    @abstractmethod
    def template(self) -> RowBuilder:
        """The builder of rows."""

    @property
    def training_words(self) -> Subwords | Lexicon:
        """The vocabulary whose ids are stored for pre-training."""
        return self.words

    @property
    def pad(self) -> int:
        return self.words.pad

    @property
    def unk(self) -> int:
        return self.words.unk

    @property
    def eos(self) -> int:
        """The id of the token at the end of generated text."""
        return self.words.eos

    @property
    def special_ids(self) -> dict[str, int]:
        return {"pad_token": self.pad}

    @property
    def vocabularies(self) -> tuple[Subwords, ...]:
        return (self.words,)

    @property
    def spelling(self) -> Spelling:
        """Spelling of words for another model that uses the states of this one as features."""
        raise BadInput("features need ELMo or a translator; this model is neither")

    def check(self, known: Mapping[str, int], summaries: Collection[str | None]) -> None:
        check_sizes({"tokens": len(self.words)}, known)
        if (summary := self.template.template.summary) not in summaries:
            here, expected = summary or "nowhere", " or ".join(at or "nowhere" for at in summaries)
            raise BadInput(
                f"the tokenizer puts the summary token {here}; the model needs it {expected}"
            )

    def with_special_tokens(self, tokens: Sequence[str]) -> "RowTokenizer":
        """Tokenizer with these special tokens added, where they are missing."""
        raise BadInput(f"this tokenizer cannot have special tokens such as {', '.join(tokens)}")

    def limit(self, max_length: int | None, plain_rows: bool = False) -> int | None:
        return max_length if plain_rows or self.template.specials(1) else None

    def masked(self, text: str) -> Ids:
        """The ids of a text that may contain the mask token."""
        return self.words.encode(text)

    def encode_prompts(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of texts to be continued, after the bos token if rows have it."""
        return self.words.encode_all(texts)

    @property
    def sizes(self) -> dict[str, int]:
        return {"vocab": len(self.words)}

    def texts_of(self, value: object) -> tuple[str, ...]:
        return one_or_two_texts(value, 1)

    def parse(self, line: str, where: str) -> str | tuple[str, str]:
        """The text in a line of a file, or two with a tab between them."""
        return text_or_pair(line, where)

    def rows(self, inputs: Sequence[object], max_length: int | None = None) -> list[TokenRow]:
        """A row of each text or pair of texts, truncated to ``max_length``."""
        return [
            self.row(*texts, longest=max_length) for texts in self._text_ids(inputs, max_length)
        ]

    def window_rows(
        self, inputs: Sequence[object], max_length: int, stride: int | None = None
    ) -> list[list[TokenRow]]:
        """Rows of each text or pair of texts: overlapping windows of a long one."""
        every = self._text_ids(inputs)
        return [self.template.text_windows(*texts, max_length, stride) for texts in every]

    def _text_ids(
        self, inputs: Sequence[object], longest: int | None = None
    ) -> list[tuple[Ids, Ids | None]]:
        """The ids of each text, or of both texts of a pair; see ``encode_beginnings``."""
        texts = [one_or_two_texts(value, number) for number, value in enumerate(inputs, start=1)]
        ids = iter(encode_beginnings(self.words, chain(*texts), longest))
        return [(next(ids), next(ids) if len(own) == 2 else None) for own in texts]

    def row(self, a: Ids, b: Ids | None = None, longest: int | None = None) -> TokenRow:
        """A row of one text or two; the longer text is truncated first."""
        return self.template.row(a, b, longest)

    def row_of_marks(self, texts: Sequence[Ids], longest: int | None = None) -> TokenRow:
        """A row of numbers in place of the ids of one text or two, with 0 as each special token."""
        blank = replace(self.template, special=dict.fromkeys(self.template.special, 0))
        return blank.row(texts[0], texts[1] if len(texts) == 2 else None, longest)

    def count(self, texts: Sequence[str], most: int) -> int:
        """Number of tokens of a row of these texts; see ``token_count``."""
        return token_count(texts, self.words, self.template.specials(len(texts)), most)

    def label(self, first: str, second: str | None = None) -> LabelledInput:
        """Row of one text or two, with the subwords and words that its tokens stand for."""
        texts = (first,) if second is None else (first, second)
        cuts = [self.words.segment(text) for text in texts]
        special = self.template.special.items()
        labels = {role: TokenLabels.special(*self.words.pieces([i])) for role, i in special}
        for name, text, cut in zip(TEXTS, texts, cuts, strict=False):
            labels[name] = TokenLabels.of_text(text, cut, self.words.pieces(cut.ids))
        parts = (labels[part.name] for part in self.template.template.parts(len(texts)))
        row = self.row(cuts[0].ids, None if second is None else cuts[1].ids)
        later = np.flatnonzero(row.segments)
        joined = TokenLabels.join(*parts)
        if second is not None and len(later):
            joined = joined._replace(second=int(later[0]))
        return {"trunk": LabelledRow(row, joined, joined)}

    def read_words(self, text: str) -> RowWithWords:
        """Row of a text, with the positions of its words among the returned states."""
        cut = self.words.segment(text)
        row = self.row(cut.ids)
        inner = range(len(row.tokens))[self.inner]
        return RowWithWords.of_text(text, cut, row, self.template.text_start("A") - inner.start)

    def label_all(self, first: str, second: str) -> list[LabelledInput]:
        """Row of the first text and, if rows can have two texts, a row of both; see ``label``."""
        pairs = [] if self.template.template.pair is None else [self.label(first, second)]
        return [self.label(first), *pairs]

    def pieces(self, words: Sequence[str]) -> list[list[int]]:
        """The ids of each word on its own; a word without ids becomes the unknown token."""
        return [ids or [self.unk] for ids in self.words.encode_all(words)]

    def windows(
        self, question: str, context: str, longest: int, stride: int, most_question: int = 64
    ) -> list[ContextWindow]:
        """Rows of a question of at most ``most_question`` tokens and a window of its context."""
        ids, spans = self.words.cut(context)
        question_ids = self.words.encode(question)[:most_question]
        return self.template.windows(question_ids, ids, spans, longest, stride)

    def decode(self, ids: Ids) -> str:
        """Plain text; special tokens are left out."""
        return self.words.decode(np.asarray(ids, dtype=int).tolist())


def require_tokenizer(tokenizer: Reading | None) -> Any:
    """Return the tokenizer of a folder; refuse a folder without one."""
    if tokenizer is None:
        raise BadInput(MISSING)
    return tokenizer


class WholeWordTokenizer(RowTokenizer):
    """Base class of tokenizers of whole words, with a token before and after each sentence."""

    words: WholeWords  # type: ignore[assignment]

    def __repr__(self) -> str:
        described = f"{self.words.kind}, {len(self.words):,} tokens, special: {BEGIN}, {END}"
        return f"{type(self).__name__}({described})"

    @property
    def special_ids(self) -> dict[str, int]:
        return {}

    @cached_property
    def template(self) -> RowBuilder:
        special = {"bos": self.words.frame(BEGIN), "eos": self.words.frame(END)}
        return RowBuilder(Template("bos A eos", "bos A eos bos:1 B:1 eos:1"), special)

    def count(self, texts: Sequence[str], most: int) -> int:
        return sum(len(word_spans(text)) for text in texts) + self.template.specials(len(texts))
