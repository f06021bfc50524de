"""What an encoder reads: a vocabulary with special tokens, and the rows made of texts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np

from regard.ground.errors import BadInput
from regard.ground.files import write_files
from regard.text.families.tokenizer_family import TokenizerFamily
from regard.text.templates import TEXTS, RowBuilder
from regard.text.tokenizers.row_tokenizer import RowTokenizer
from regard.text.tokenizers.tokenizer_files import (
    TokenizerFiles,
    add_special_tokens,
    all_files,
    change_family,
    learn_files,
    read_files,
)
from regard.text.vocabularies.subwords import Subwords

IN_CONFIG = ("pad_token", "bos_token", "eos_token")  # roles whose ids config.json has


@dataclass(frozen=True)
class EncoderTokenizer(RowTokenizer):
    """A vocabulary, the names of its special tokens by role, and its files as read or made.

    The ids are those of ``transformers``, with one exception: "[SEP]" in a text is text.
    """

    name: ClassVar = "encoder"
    FILES: ClassVar = all_files()

    family: TokenizerFamily
    words: Subwords
    names: Mapping[str, str] = field(repr=False)
    longest: int | None = None
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    @property
    def pad(self) -> int:
        return self._id("pad_token")

    @property
    def unk(self) -> int:
        return self._id("unk_token")

    @property
    def cls(self) -> int:
        return self._id("cls_token")

    @property
    def sep(self) -> int:
        return self._id("sep_token")

    @property
    def mask(self) -> int:
        return self._id("mask_token")

    @property
    def special_ids(self) -> dict[str, int]:
        return {role: self._special[role] for role in IN_CONFIG if role in self._special}

    @cached_property
    def special(self) -> frozenset[int]:
        """The ids that are no text."""
        return frozenset(self._special.values())

    @cached_property
    def continues(self) -> np.ndarray:
        """For each id whether it continues a word."""
        pieces = self.words.pieces(range(len(self.words)))
        return np.array([self.family.continues_word(piece) for piece in pieces])

    @cached_property
    def template(self) -> RowBuilder:
        roles = {part.name for part in self.family.template.parts(2)} - {*TEXTS}
        ids = {role: self._special[f"{role}_token"] for role in roles}
        if (separator := self._special.get(self.family.separator)) is not None:
            ids["sep"] = separator
        return RowBuilder(self.family.template, ids)

    def masked(self, text: str) -> list[int]:
        parts = text.split(self.names["mask_token"])
        if self.words.strips_left(self.mask):
            parts = [*(part.rstrip() for part in parts[:-1]), parts[-1]]
        first, *others = self.words.encode_all(parts)
        return first + [i for part in others for i in (self.mask, *part)]

    def join(self, text: str, piece: str) -> str:
        """A text with a piece, as ``words.pieces`` writes it, at its end."""
        return self.family.join(text, piece)

    def pieces(self, words: Sequence[str]) -> list[list[int]]:
        return super().pieces([self.family.word_prefix + word for word in words])

    def with_family(self, name: str) -> "EncoderTokenizer":
        """The same pieces in the rows of another family that has pieces of this kind."""
        return EncoderTokenizer(*change_family(self._files, name))

    def with_special_tokens(self, tokens: Sequence[str]) -> "EncoderTokenizer":
        missing = [token for token in tokens if not self.words.has(token)]
        if not missing:
            return self
        return EncoderTokenizer(*add_special_tokens(self._files, missing))

    @property
    def _files(self) -> TokenizerFiles:
        return TokenizerFiles(self.family, self.words, self.names, self.longest, self.files)

    def save(self, folder: Path) -> None:
        write_files(folder, self.files, stale=self.FILES)

    @staticmethod
    def load(folder: Path, family: TokenizerFamily | None = None) -> "EncoderTokenizer | None":
        """Read the tokenizer of a folder, ours or another's; None where it has none.

        Files that name no class, and may be of several families, are of this ``family``.
        """
        read = read_files(folder, family)
        return None if read is None else EncoderTokenizer(*read)

    def _id(self, role: str) -> int:
        if role not in self._special:
            raise BadInput(f"this tokenizer has no {role.replace('_', ' ')}")
        return self._special[role]

    @cached_property
    def _special(self) -> dict[str, int]:
        return {role: self.words.number(name) for role, name in self.names.items()}


def train_encoder_tokenizer(
    texts: Iterable[str],
    kind: str,
    vocab: int,
    *,
    lower: bool = True,
    longest: int | None = 512,
    special_tokens: Sequence[str] = (),
) -> EncoderTokenizer:
    """A tokenizer of the family ``kind``, learned from ``texts``.

    Its ``special_tokens`` are those beside the ones of the family.
    """
    return EncoderTokenizer(*learn_files(kind, texts, vocab, lower, longest, special_tokens))
