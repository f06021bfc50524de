"""Whole words: texts that are tokenised already, cut at spaces, as language models read WikiText.

A line ends in ``<eos>``, which also separates documents. Words beyond the vocabulary are ``<unk>``,
as a text may write itself.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

from regard.ground.errors import BadInput
from regard.ground.files import read_bytes
from regard.text.templates import Template
from regard.text.tokenizer_family import SPACE, Model, TokenizerFamily, TokenizerSettings

LINES = "words.txt"
UNK, EOS = "<unk>", "<eos>"


class WordLevel(TokenizerFamily):
    """The tokenizers of word-level language models."""

    name = kind = "word-level"
    model, classes = "WordLevel", ("WordLevelTokenizer",)
    files: ClassVar = (LINES,)
    special_tokens: ClassVar = {"unk_token": UNK, "eos_token": EOS}
    template, separator = Template("A", "A B"), "eos_token"

    def read_files(self, folder: Path) -> Model:
        """One word in each line, whose number is its id."""
        try:
            words = read_bytes(folder / LINES).decode().split()
        except UnicodeDecodeError as error:
            raise BadInput(f"{folder / LINES}: not UTF-8 (byte {error.start})") from None
        if len({*words}) < len(words):
            raise BadInput(f"{folder / LINES}: a word occurs twice")
        return {"vocab": {word: number for number, word in enumerate(words)}}

    def write_files(self, model: Model) -> dict[str, str]:
        """The words in the order of their ids."""
        ids = model["vocab"]
        return {LINES: "".join(f"{word}\n" for word in sorted(ids, key=ids.__getitem__))}

    def build(self, model: Model, unk: str, settings: TokenizerSettings) -> Tokenizer:
        """Words between spaces; the end of a line is a word."""
        tokenizer = Tokenizer(models.WordLevel(dict(model["vocab"]), unk_token=unk))
        lines = [normalizers.Replace("\n", f" {EOS} ")]
        lower = [normalizers.Lowercase()] if settings.flag("do_lower_case", False) else []
        tokenizer.normalizer = normalizers.Sequence([*lower, *lines])
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"\S+"), "removed", invert=True)
        return tokenizer

    def learn(self, texts: Iterable[str], vocab: int, lower: bool) -> tuple[Model, dict[str, Any]]:
        """The most frequent words; of equally frequent ones the first by their letters."""
        counts = Counter[str]()
        for text in texts:
            counts.update((text.lower() if lower else text).split())
        if not counts:
            raise BadInput("there is no text to learn words from")
        words = [*self.special_tokens.values()]
        words += sorted(counts.keys() - {*words}, key=lambda word: (-counts[word], word))
        ids = {word: number for number, word in enumerate(words[:vocab])}
        return {"vocab": ids}, {"do_lower_case": lower}

    def continues_word(self, piece: str) -> bool:
        """Every piece is a word."""
        return False

    def join(self, text: str, piece: str) -> str:
        """Words with a space between them."""
        return f"{text.rstrip()} {piece}".lstrip().replace(SPACE, " ")
