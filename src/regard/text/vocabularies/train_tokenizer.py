"""Learning a subword vocabulary from raw text: BPE, byte-level BPE, unigram, WordPiece.

The first three are byte-safe: ``decode(encode(text))`` is the normal form of any text. A space is
part of the word after it; one is added before the text and removed by ``decode``, so that the
first word is segmented like any other. WordPiece is BERT's: spaces are discarded and restored by
rules, and a word with a character that the training text does not have becomes ``<unk>``.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from regard.ground.errors import BadInput
from regard.text.vocabularies.subwords import Subwords

KINDS = ("bpe", "byte-bpe", "unigram", "wordpiece")

PAD, BOS, EOS, UNK = 0, 1, 2, 3
SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")
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

_Frame = Callable[[], Tokenizer]  # makes a tokenizer without its vocabulary


def train(
    texts: Iterable[str], kind: str, vocab: int, *, normalise: str = "nfc", lower: bool = False
) -> Subwords:
    """Learn a vocabulary of at most ``vocab`` pieces.

    The order of the texts does not change the vocabulary.
    """
    algorithm = ALGORITHMS[kind]
    fixed = len(SPECIALS) + algorithm.bytes
    if vocab < fixed:
        small = f"a vocabulary of {vocab} is too small"
        raise BadInput(f"text.vocab: {small}: {kind} needs {fixed} or more")
    frame = partial(_frame, algorithm, normalise, lower)
    finished = frame()
    finished.model = algorithm.learn(frame, _filled(texts), vocab)
    if finished.get_vocab_size() > vocab:
        raise _too_small(vocab)
    finished.add_special_tokens(list(SPECIALS))
    return Subwords(finished)


def _filled(texts: Iterable[str]) -> Iterator[str]:
    filled = (text for text in texts if text.strip())
    first = next(filled, None)
    if first is None:
        raise BadInput("data.train: there is no text to learn subwords from")
    return chain([first], filled)


def _too_small(vocab: int) -> BadInput:
    small = f"a vocabulary of {vocab} is too small"
    return BadInput(f"text.vocab: {small} for the characters of these texts")


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
    frame = Tokenizer(models.WordPiece(unk_token=SPECIALS[UNK]))
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


def learn_model(
    frame: Tokenizer,
    texts: Iterable[str],
    trainer: Callable[..., trainers.Trainer],
    vocab: int,
    special: Iterable[str],
    **options: object,
) -> dict[str, Any]:
    """The ``model`` of the tokenizer.json that the library learns."""
    settings = {"vocab_size": vocab, "special_tokens": [*special], "show_progress": False}
    frame.train_from_iterator(texts, trainer(**settings, **options))
    return json.loads(frame.to_str())["model"]


def learn_in_two_passes(
    frame: _Frame, texts: Iterable[str], vocab: int, special: Iterable[str], **options: object
) -> dict[str, int]:
    """Learn WordPiece, first for the alphabet alone.

    The library numbers the letters inside words in random order unless they are reserved, and
    numbers decide between equally frequent pairs.
    """
    texts = list(texts) if isinstance(texts, Iterator) else texts
    reserved, learned = [*special], dict[str, int]()
    for size in (0, vocab):
        trainer = trainers.WordPieceTrainer
        model = learn_model(frame(), texts, trainer, size, reserved, min_frequency=2, **options)
        learned = model["vocab"]
        reserved += sorted(learned.keys() - {*reserved})
    return learned


def _bpe(frame: _Frame, texts: Iterable[str], vocab: int) -> models.Model:
    reserved = (*SPECIALS, *BYTES)  # reserves their ids; only SPECIALS stay special
    learned = learn_model(frame(), texts, trainers.BpeTrainer, vocab, reserved, min_frequency=2)
    merges = [tuple(pair) for pair in learned["merges"]]
    return models.BPE(learned["vocab"], merges, unk_token=SPECIALS[UNK], byte_fallback=True)


def _byte_bpe(frame: _Frame, texts: Iterable[str], vocab: int) -> models.Model:
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = partial(trainers.BpeTrainer, min_frequency=2, initial_alphabet=alphabet)
    learned = learn_model(frame(), texts, trainer, vocab, SPECIALS)
    return models.BPE(learned["vocab"], [tuple(pair) for pair in learned["merges"]])


def _unigram(frame: _Frame, texts: Iterable[str], vocab: int) -> models.Model:
    learned = learn_unigram(frame(), texts, vocab, SPECIALS, SPECIALS[UNK], len(BYTES))
    fixed = [(piece, 0.0) for piece in (*SPECIALS, *BYTES)]
    return models.Unigram([*fixed, *learned], UNK, byte_fallback=True)


def learn_unigram(
    frame: Tokenizer,
    texts: Iterable[str],
    vocab: int,
    special: Sequence[str],
    unk: str,
    reserved: int = 0,
) -> list[tuple[str, float]]:
    """Learn pieces with scores; ``special`` and ``reserved`` pieces count towards ``vocab``."""
    trainer = partial(trainers.UnigramTrainer, unk_token=unk)
    try:
        learned = learn_model(frame, texts, trainer, vocab - reserved, special)["vocab"]
    except Exception as error:  # the library raises bare Exception
        if "not large enough" in str(error):
            raise _too_small(vocab) from error
        raise
    return _settled(learned[len(special) :])


def _settled(pieces: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """Make scores deterministic. The library sums them in random order, and gives the characters
    that it re-adds to the vocabulary the lowest scores, 0.0001 apart, in random order."""
    floor = min(score for _, score in pieces)
    readmitted = floor + 0.0001 * sum(len(piece) == 1 for piece, _ in pieces)
    settled = [
        (piece, round(floor if len(piece) == 1 and score < readmitted else score, 6))
        for piece, score in pieces
    ]
    return sorted(settled, key=lambda entry: (-entry[1], entry[0]))


def _wordpiece(frame: _Frame, texts: Iterable[str], vocab: int) -> models.Model:
    learned = learn_in_two_passes(frame, texts, vocab, SPECIALS)
    return models.WordPiece(learned, unk_token=SPECIALS[UNK])


class Algorithm(NamedTuple):
    """Algorithm that learns subwords, its tokenizer, and the number of ids for single bytes."""

    learn: Callable[[_Frame, Iterable[str], int], models.Model]
    frame: Callable[[list[normalizers.Normalizer]], Tokenizer]
    bytes: int = len(BYTES)


ALGORITHMS = {
    "bpe": Algorithm(_bpe, _spaced_frame),
    "byte-bpe": Algorithm(_byte_bpe, _byte_frame),
    "unigram": Algorithm(_unigram, partial(_spaced_frame, model=models.Unigram)),
    "wordpiece": Algorithm(_wordpiece, _spaceless_frame, bytes=0),
}
