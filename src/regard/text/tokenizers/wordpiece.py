"""WordPiece as BERT has it (Devlin et al., 2018): words are cut at spaces and signs, then each into
the longest pieces known; a piece that begins with ``##`` continues a word.

The tokenizer is put together as ``transformers`` does it, so that both give the same ids.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import ClassVar

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from regard.core.errors import BadInput
from regard.core.files import JSON, read_text
from regard.text.templates import XLNET_TEMPLATE, Template
from regard.text.tokenizers.family import (
    Learned,
    TokenizerFamily,
    TokenizerSettings,
    Vocab,
    lines_by_id,
)
from regard.text.tokenizers.subwords import learn_in_two_passes

CLASSES = ("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer", "MobileBertTokenizer")
PREFIX = "##"
LINES = "vocab.txt"
ROLES = ("pad", "unk", "cls", "sep", "mask")  # in the order of BERT's own vocabularies
SPECIALS = {f"{role}_token": f"[{role.upper()}]" for role in ROLES}


class WordPiece(TokenizerFamily):
    """WordPiece tokenizers of BERT and of models that share its tokenizer."""

    name = kind = "wordpiece"
    model: ClassVar = "WordPiece"
    classes: ClassVar[tuple[str, ...]] = CLASSES
    files: ClassVar = (LINES,)
    special_tokens: ClassVar = SPECIALS
    template: ClassVar = Template("cls A sep", "cls A sep B:1 sep:1")

    def read_files(self, folder: Path) -> Vocab:
        """Read the pieces of vocab.txt, whose ids are their line numbers from 0.

        A piece that is listed twice has the last id; the earlier ids get placeholder names.
        """
        lines = read_text(folder / LINES).split("\n")
        pieces = [line.rstrip() for line in (lines if lines[-1] else lines[:-1])]
        last = {piece: number for number, piece in enumerate(pieces)}
        for number, piece in enumerate(pieces):
            if last[piece] != number:
                pieces[number] = f"{piece} (line {number + 1})"
        return {"vocab": {piece: number for number, piece in enumerate(pieces)}}

    def write_files(self, model: Vocab) -> dict[str, str]:
        return {LINES: lines_by_id(model)}

    def check(self, model: JSON, path: Path) -> dict[str, JSON]:
        content = super().check(model, path)
        if content.get("continuing_subword_prefix", PREFIX) != PREFIX:
            raise BadInput(f"{path}: only {PREFIX} is supported as continuing_subword_prefix")
        return content

    def build(self, model: Vocab, unk: str, settings: TokenizerSettings) -> Tokenizer:
        tokenizer = _frame(settings, unk)
        tokenizer.model = models.WordPiece(dict(model["vocab"]), unk_token=unk)
        return tokenizer

    def learn(self, texts: Iterable[str], vocab: int, lower: bool) -> Learned:
        settings = {"do_lower_case": lower, "strip_accents": None, "tokenize_chinese_chars": True}
        return {"vocab": learn_wordpiece(texts, vocab, TokenizerSettings(settings))}, settings

    def continues_word(self, piece: str) -> bool:
        return piece.startswith(PREFIX)

    def join(self, text: str, piece: str) -> str:
        if self.continues_word(piece):
            return text.rstrip() + piece.removeprefix(PREFIX)
        return text + piece


class XLNetWordPiece(WordPiece):
    """WordPiece with the row template of XLNet, whose class token is last.

    ``transformers`` has no class for it, and loads its tokenizer.json unchanged.
    """

    name, classes = "xlnet-wordpiece", ("PreTrainedTokenizerFast",)
    template = XLNET_TEMPLATE


def learn_wordpiece(
    texts: Iterable[str], vocab: int, settings: TokenizerSettings, letters: int = 1_000
) -> dict[str, int]:
    """Learn at most ``vocab`` pieces of the ``letters`` most frequent letters; others are unknown.

    The order of the texts does not change the vocabulary. They are read three times.
    """
    texts = list(texts) if isinstance(texts, Iterator) else texts
    alphabet = _alphabet(texts, settings, letters)
    frame, limit = partial(_frame, settings, SPECIALS["unk_token"]), len(alphabet)
    limited = partial(trainers.WordPieceTrainer, initial_alphabet=alphabet, limit_alphabet=limit)
    trainer = partial(limited, min_frequency=2)
    learned = learn_in_two_passes(frame, texts, trainer, vocab, SPECIALS.values())["vocab"]
    if len(learned) > vocab:
        small = f"a vocabulary of {vocab} is too small for the letters of these texts"
        raise BadInput(f"text.vocab: {small}; write {len(learned)} or more")
    return learned


def _frame(settings: TokenizerSettings, unknown: str) -> Tokenizer:
    """Tokenizer without its vocabulary and its template."""
    frame = Tokenizer(models.WordPiece(unk_token=unknown))
    frame.normalizer = _normaliser(settings)
    frame.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    frame.decoder = decoders.WordPiece(prefix=PREFIX)
    return frame


def _normaliser(settings: TokenizerSettings) -> normalizers.Normalizer:
    return normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=settings.flag("tokenize_chinese_chars", True),
        strip_accents=settings.flag("strip_accents", None),  # None: if letters are lowercased
        lowercase=settings.flag("do_lower_case", True),
    )


def _alphabet(texts: Iterable[str], settings: TokenizerSettings, most: int) -> list[str]:
    """The most frequent letters; ties are broken by code point (by the library, at random)."""
    normalise, counts = _normaliser(settings).normalize_str, Counter[str]()
    for text in texts:
        counts.update(normalise(text))
    letters = sorted((-count, letter) for letter, count in counts.items() if not letter.isspace())
    if not letters:
        raise BadInput("data.train: there is no text to learn subwords from")
    return [letter for _, letter in letters[:most]]
