"""Whole words, split at spaces if texts are tokenised already, as language models read WikiText.

In raw texts, punctuation marks are words too. A line ends in ``<eos>``, which also separates
documents. Words that are not in the vocabulary become ``<unk>``; a text may also contain ``<unk>``
itself.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from regard.ground.errors import BadInput
from regard.ground.files import read_text
from regard.text.families.tokenizer_family import (
    SPACE,
    Learned,
    TokenizerFamily,
    TokenizerSettings,
    Vocab,
    lines_by_id,
)
from regard.text.templates import Template

LINES = "words.txt"
UNK, EOS = "<unk>", "<eos>"


class WordLevel(TokenizerFamily):
    """Tokenizers of word-level language models."""

    name = kind = "word-level"
    model, classes = "WordLevel", ("WordLevelTokenizer",)
    files: ClassVar = (LINES,)
    special_tokens: ClassVar = {"unk_token": UNK, "eos_token": EOS}
    template, separator = Template("A", "A B"), "eos_token"
    pattern: ClassVar[str] = r"\S+"  # of a word

    def read_files(self, folder: Path) -> Vocab:
        words = read_text(folder / LINES).split()
        if len({*words}) < len(words):
            raise BadInput(f"{folder / LINES}: a word occurs twice")
        return {"vocab": {word: number for number, word in enumerate(words)}}

    def write_files(self, model: Vocab) -> dict[str, str]:
        return {LINES: lines_by_id(model)}

    def build(self, model: Vocab, unk: str, settings: TokenizerSettings) -> Tokenizer:
        tokenizer = Tokenizer(models.WordLevel(dict(model["vocab"]), unk_token=unk))
        lines = [normalizers.Replace("\n", f" {EOS} ")]
        lower = [normalizers.Lowercase()] if settings.flag("do_lower_case", False) else []
        tokenizer.normalizer = normalizers.Sequence([*lower, *lines])
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(self.pattern), "removed", invert=True)
        return tokenizer

    def learn(self, texts: Iterable[str], vocab: int, lower: bool) -> Learned:
        special, settings = [*self.special_tokens.values()], {"do_lower_case": lower}
        tokenizer = self.build({"vocab": {}}, UNK, TokenizerSettings(settings))
        trainer = trainers.WordLevelTrainer(vocab_size=vocab + len(special), show_progress=False)
        tokenizer.train_from_iterator(texts, trainer)
        ranks = tokenizer.get_vocab()
        words = sorted(ranks.keys() - {*special}, key=ranks.__getitem__)
        if not words:
            raise BadInput("data.train: there is no text to learn words from")
        ids = {word: number for number, word in enumerate([*special, *words][:vocab])}
        return {"vocab": ids}, settings

    def continues_word(self, piece: str) -> bool:
        return False

    def join(self, text: str, piece: str) -> str:
        return f"{text.rstrip()} {piece}".lstrip().replace(SPACE, " ")


class RawWords(WordLevel):
    """Words and punctuation marks of texts as people write them; "it's" is "it" and "'s"."""

    name, kind = "raw-words", "words"
    classes = ("RawWordTokenizer",)
    pattern = rf"\w+|(?<=\w)['’]\w+|{UNK}|{EOS}|[^\w\s]"
