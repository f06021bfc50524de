"""Subwords without special tokens around texts: BPE, byte-level BPE, unigram or WordPiece.

The first three are byte-safe: ``decode(encode(text))`` is the normal form of any text. A space is
part of the word after it; one is added before the text and removed by ``decode``, so that the
first word is segmented like any other. WordPiece is BERT's: spaces are discarded and restored by
rules, and a word with a character that the training text does not have becomes ``<unk>``.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import ClassVar, NamedTuple

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from regard.core.errors import BadInput
from regard.text.templates import RowBuilder, Template
from regard.text.tokenizers.bounds import KNOWN
from regard.text.tokenizers.row_tokenizer import RowTokenizer
from regard.text.tokenizers.subwords import (
    Frame,
    Subwords,
    learn_in_two_passes,
    learn_model,
    too_small,
)
from regard.text.tokenizers.unigram import learn_unigram
from regard.text.vocabulary import SPECIAL_TOKENS, UNK

BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))

# Letters, digits and other signs are never merged, so no piece can be "</s>" or "<0x41>".
_SPACED = r" ?[\p{L}\p{M}]+| ?\p{N}+| ?[^\s\p{L}\p{M}\p{N}]+|\s+(?!\S)|\s+"
_SPACELESS = r"\p{Han}|(?:(?!\p{Han})[\p{L}\p{M}])+|\p{N}+|[^\s\p{L}\p{M}\p{N}]"

# Spaces that WordPiece's decoder inserts where most texts have none.
_NEEDLESS = (
    r" (?=[.,;:!?%…)\]}])|(?<=[(\[{]) "  # before closing and after opening signs
    r"|(?<=\w) (?=['’-] \w)|(?<=\w ['’-]) (?=\w)"  # in don't and twenty-one
    r"|(?<=\d [.,:]) (?=\d)"  # in 3.5 and 10:30
    r"|(?<=\p{Han}) (?=\p{Han})"
)
KNOWN.update((_SPACED, _SPACELESS, _NEEDLESS))


@dataclass(frozen=True, repr=False)
class PlainTokenizer(RowTokenizer):
    """Tokenizer of subwords without special tokens, for one text at a time."""

    name: ClassVar = "plain"
    FILES: ClassVar = ("tokenizer.json",)

    words: Subwords

    @property
    def template(self) -> RowBuilder:
        return RowBuilder(Template("A"), {})

    def save(self, folder: Path) -> None:
        self.words.save(folder / self.FILES[0])

    def json_files(self) -> dict[str, str]:
        return self.words.json_files()

    @staticmethod
    def load(folder: Path) -> "PlainTokenizer":
        """Read the tokenizer that ``save`` wrote."""
        return PlainTokenizer(Subwords.load(folder / PlainTokenizer.FILES[0]))


def train_subwords(
    texts: Iterable[str], kind: str, vocab: int, *, normalise: str = "nfc", lower: bool = False
) -> Subwords:
    """Learn a vocabulary of at most ``vocab`` pieces.

    The order of the texts does not change the vocabulary.
    """
    algorithm = ALGORITHMS[kind]
    fixed = len(SPECIAL_TOKENS) + algorithm.bytes
    if vocab < fixed:
        small = f"a vocabulary of {vocab} is too small"
        raise BadInput(f"text.vocab: {small}: {kind} needs {fixed} or more")
    frame = partial(_frame, algorithm, normalise, lower)
    finished = frame()
    finished.model = algorithm.learn(frame, filled(texts), vocab)
    if (least := finished.get_vocab_size()) > vocab:
        raise too_small(vocab, least)
    finished.add_special_tokens(list(SPECIAL_TOKENS))
    return Subwords(finished)


def filled(texts: Iterable[str]) -> Iterator[str]:
    """The texts that are not blank; there must be one."""
    rest = (text for text in texts if text.strip())
    first = next(rest, None)
    if first is None:
        raise BadInput("data.train: there is no text to learn subwords from")
    return chain([first], rest)


def _frame(algorithm: "Algorithm", normalise: str, lower: bool) -> Tokenizer:
    """Tokenizer without its vocabulary."""
    steps: list[normalizers.Normalizer] = []
    if normalise != "none":
        steps.append(normalizers.NFC() if normalise == "nfc" else normalizers.NFKC())
    if lower:
        steps.append(normalizers.Lowercase())
    return algorithm.frame(steps)


def _spaceless_frame(steps: list[normalizers.Normalizer]) -> Tokenizer:
    """Tokenizer of words without the spaces between them; the decoder puts spaces back."""
    frame = Tokenizer(models.WordPiece(unk_token=SPECIAL_TOKENS[UNK]))
    frame.pre_tokenizer = pre_tokenizers.Split(Regex(_SPACELESS), "removed", invert=True)
    closed_up = decoders.Replace(Regex(_NEEDLESS), "")
    spaced = decoders.WordPiece(cleanup=False)
    frame.decoder = decoders.Sequence([spaced, decoders.Fuse(), closed_up])
    frame.normalizer = normalizers.Sequence(steps)
    return frame


def _spaced_frame(steps: list[normalizers.Normalizer], model: type = models.BPE) -> Tokenizer:
    """Tokenizer of words with the space before them, as characters or single bytes."""
    frame = Tokenizer(model())
    frame.pre_tokenizer = pre_tokenizers.Split(Regex(_SPACED), "isolated")
    unprefixed = decoders.Strip(" ", 1, 0)
    frame.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse(), unprefixed])
    frame.normalizer = normalizers.Sequence([*steps, normalizers.Prepend(" ")])
    return frame


def _byte_frame(steps: list[normalizers.Normalizer]) -> Tokenizer:
    """Tokenizer of words with the space before them, as bytes."""
    frame = _spaced_frame(steps)
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    frame.pre_tokenizer = pre_tokenizers.Sequence([frame.pre_tokenizer, byte_level])
    frame.decoder = decoders.Sequence([decoders.ByteLevel(), frame.decoder])
    return frame


def _bpe(frame: Frame, texts: Iterable[str], vocab: int) -> models.Model:
    reserved = (*SPECIAL_TOKENS, *BYTES)  # reserves their ids; only SPECIAL_TOKENS stay special
    learned = learn_model(frame(), texts, trainers.BpeTrainer, vocab, reserved, min_frequency=2)
    merges = [tuple(pair) for pair in learned["merges"]]
    return models.BPE(learned["vocab"], merges, unk_token=SPECIAL_TOKENS[UNK], byte_fallback=True)


def _byte_bpe(frame: Frame, texts: Iterable[str], vocab: int) -> models.Model:
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = partial(trainers.BpeTrainer, min_frequency=2, initial_alphabet=alphabet)
    learned = learn_model(frame(), texts, trainer, vocab, SPECIAL_TOKENS)
    return models.BPE(learned["vocab"], [tuple(pair) for pair in learned["merges"]])


def _unigram(frame: Frame, texts: Iterable[str], vocab: int) -> models.Model:
    learned = learn_unigram(frame(), texts, vocab, SPECIAL_TOKENS, SPECIAL_TOKENS[UNK], len(BYTES))
    fixed = [(piece, 0.0) for piece in (*SPECIAL_TOKENS, *BYTES)]
    return models.Unigram([*fixed, *learned], UNK, byte_fallback=True)


def _wordpiece(frame: Frame, texts: Iterable[str], vocab: int) -> models.Model:
    trainer = partial(trainers.WordPieceTrainer, min_frequency=2)
    learned = learn_in_two_passes(frame, texts, trainer, vocab, SPECIAL_TOKENS)
    return models.WordPiece(learned["vocab"], unk_token=SPECIAL_TOKENS[UNK])


class Algorithm(NamedTuple):
    """Algorithm that learns subwords, its tokenizer, and the number of ids for single bytes."""

    learn: Callable[[Frame, Iterable[str], int], models.Model]
    frame: Callable[[list[normalizers.Normalizer]], Tokenizer]
    bytes: int = len(BYTES)


ALGORITHMS = {
    "bpe": Algorithm(_bpe, _spaced_frame),
    "byte-bpe": Algorithm(_byte_bpe, _byte_frame),
    "unigram": Algorithm(_unigram, partial(_spaced_frame, model=models.Unigram)),
    "wordpiece": Algorithm(_wordpiece, _spaceless_frame, bytes=0),
}
KINDS = tuple(ALGORITHMS)
