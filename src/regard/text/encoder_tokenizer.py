"""What BERT reads and writes: its vocabulary, its special tokens, and the rows made of texts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np

from regard.ground.batch import Ids, TokenRow
from regard.ground.errors import BadInput
from regard.ground.files import replacing
from regard.text.encoder_files import FILES, fresh_files, read_files
from regard.text.subwords import Subwords
from regard.text.templates import Template, Window
from regard.text.vocabulary import check_sizes
from regard.text.wordpiece import GOES_ON, SPECIALS, Normalisation, bert_tokenizer, learn_wordpiece


@dataclass(frozen=True)
class EncoderTokenizer:
    """A vocabulary, its special tokens by role, and its files as they were read or made.

    The ids are those of ``transformers``, but for one thing: "[SEP]" in a text is text.
    """

    name: ClassVar = "encoder"
    FILES: ClassVar = FILES

    words: Subwords
    names: Mapping[str, str] = field(repr=False)
    longest: int | None = None
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    @property
    def vocabularies(self) -> tuple[Subwords, ...]:
        """Its only one."""
        return (self.words,)

    def check(self, known: Mapping[str, int]) -> None:
        """Refuse a model that does not know every id."""
        check_sizes({"tokens": len(self.words)}, known)

    @property
    def pad(self) -> int:
        return self._special["pad_token"]

    @property
    def unk(self) -> int:
        return self._special["unk_token"]

    @property
    def cls(self) -> int:
        return self._special["cls_token"]

    @property
    def sep(self) -> int:
        return self._special["sep_token"]

    @property
    def mask(self) -> int:
        return self._special["mask_token"]

    @cached_property
    def special(self) -> frozenset[int]:
        """The ids that are no text."""
        return frozenset(self._special.values())

    @cached_property
    def continues(self) -> np.ndarray:
        """For each id whether it goes on inside a word."""
        pieces = self.words.pieces(range(len(self.words)))
        return np.array([piece.startswith(GOES_ON) for piece in pieces])

    @cached_property
    def template(self) -> Template:
        """How rows are put together."""
        return Template(self.cls, self.sep)

    def row(self, a: Ids, b: Ids | None = None, longest: int | None = None) -> TokenRow:
        """``[CLS] a [SEP]`` or ``[CLS] a [SEP] b [SEP]``, the longer text cut first."""
        return self.template.row(a, b, longest)

    def masked(self, text: str) -> list[int]:
        """The ids of a text in which the mask, and no other special token, may be written."""
        first, *others = self.words.encode_all(text.split(self.names["mask_token"]))
        return first + [i for part in others for i in (self.mask, *part)]

    def pieces(self, words: Sequence[str]) -> list[list[int]]:
        """Words, each cut on its own; one that nothing is left of is unknown."""
        return [ids or [self.unk] for ids in self.words.encode_all(words)]

    def windows(
        self,
        question: str,
        context: str,
        longest: int = 384,
        stride: int = 128,
        most_question: int = 64,
    ) -> list[Window]:
        """A question, cut to ``most_question`` pieces, with each part of its context."""
        ids, spans = self.words.cut(context)
        asked = self.words.encode(question)[:most_question]
        return self.template.windows(asked, ids, spans, longest, stride)

    def decode(self, ids: Ids) -> str:
        """Plain text again; special tokens are left out."""
        return self.words.decode([int(i) for i in ids])

    def save(self, folder: Path) -> None:
        """Write the files, and take away those of an earlier vocabulary."""
        for name, content in self.files.items():
            with replacing(folder / name) as temporary:
                temporary.write_bytes(content)
        for name in set(FILES) - self.files.keys():
            (folder / name).unlink(missing_ok=True)

    @staticmethod
    def load(folder: Path) -> "EncoderTokenizer | None":
        """Read the tokenizer of a folder, ours or another's; None where it has none."""
        found = read_files(folder)
        if found is None:
            return None
        return EncoderTokenizer(Subwords(found.tokenizer), found.names, found.longest, found.files)

    @cached_property
    def _special(self) -> dict[str, int]:
        return {role: self.words.number(name) for role, name in self.names.items()}


def train_wordpiece(
    texts: Iterable[str], vocab: int = 30_522, *, lower: bool = True, longest: int | None = 512
) -> EncoderTokenizer:
    """A vocabulary like BERT's, learnt from ``texts``; the same for the same texts in any order."""
    if vocab < len(SPECIALS):
        raise BadInput(f"a vocabulary of {vocab} has no room for {', '.join(SPECIALS.values())}")
    manner = Normalisation(lower)
    tokenizer = bert_tokenizer(learn_wordpiece(texts, vocab, manner), manner)
    files = fresh_files(tokenizer, manner, SPECIALS, longest)
    return EncoderTokenizer(Subwords(tokenizer), SPECIALS, longest, files)
