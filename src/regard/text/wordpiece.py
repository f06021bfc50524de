"""WordPiece as BERT has it (Devlin et al., 2018): words are cut at spaces and signs, then each into
the longest pieces known; ``##`` begins a piece that goes on inside a word.

The tokenizer is put together as ``transformers`` does it, so that both give the same ids.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from regard.ground.errors import BadInput

GOES_ON = "##"
# In the order of BERT's own vocabularies.
SPECIALS = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}


@dataclass(frozen=True)
class Normalisation:
    """How a text is made ready to be cut."""

    lower: bool = True
    strip_accents: bool | None = None  # None: where letters are made small
    chinese: bool = True  # Chinese characters are words of their own


def bert_tokenizer(
    vocabulary: Mapping[str, int], manner: Normalisation, names: Mapping[str, str] = SPECIALS
) -> Tokenizer:
    """A tokenizer with BERT's normaliser and template; ``names`` are its special tokens."""
    tokenizer = _frame(manner, names["unk_token"])
    tokenizer.model = models.WordPiece(dict(vocabulary), unk_token=names["unk_token"])
    tokenizer.add_special_tokens(list(names.values()))
    cls, sep = names["cls_token"], names["sep_token"]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=[f"{cls}:0", "$A:0", f"{sep}:0"],
        pair=[f"{cls}:0", "$A:0", f"{sep}:0", "$B:1", f"{sep}:1"],
        special_tokens=[(name, vocabulary[name]) for name in (cls, sep)],
    )
    return tokenizer


def learn_wordpiece(
    texts: Iterable[str], vocab: int, manner: Normalisation, letters: int = 1_000
) -> dict[str, int]:
    """At most ``vocab`` pieces, made of the most frequent ``letters``; those of rarer are unknown.

    The same texts, in any order, give the same vocabulary. It is learnt twice, first for the
    alphabet alone: the library numbers the letters inside words in random order unless they are
    reserved, and numbers decide between equally frequent pairs. Texts are read three times.
    """
    texts = list(texts) if isinstance(texts, Iterator) else texts
    alphabet = _alphabet(texts, manner, letters)
    reserved, learned = list(SPECIALS.values()), {}
    for size in (0, vocab):
        trainer = trainers.WordPieceTrainer(
            vocab_size=size,
            min_frequency=2,
            special_tokens=reserved,
            initial_alphabet=alphabet,
            limit_alphabet=len(alphabet),
            show_progress=False,
        )
        frame = _frame(manner, SPECIALS["unk_token"])
        frame.train_from_iterator(texts, trainer)
        learned = json.loads(frame.to_str())["model"]["vocab"]
        reserved = [*reserved, *sorted(learned.keys() - set(reserved))]
    if len(learned) > vocab:
        raise BadInput(f"a vocabulary of {vocab} is too small: {len(learned)} pieces are letters")
    return learned


def _frame(manner: Normalisation, unknown: str) -> Tokenizer:
    """A tokenizer that is complete but for its vocabulary and its template."""
    frame = Tokenizer(models.WordPiece(unk_token=unknown))
    frame.normalizer = _normaliser(manner)
    frame.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    frame.decoder = decoders.WordPiece(prefix=GOES_ON)
    return frame


def _normaliser(manner: Normalisation) -> normalizers.Normalizer:
    return normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=manner.chinese,
        strip_accents=manner.strip_accents,
        lowercase=manner.lower,
    )


def _alphabet(texts: Iterable[str], manner: Normalisation, most: int) -> list[str]:
    """The most frequent letters, of equally frequent ones the first by their numbers."""
    normalise, counts = _normaliser(manner).normalize_str, Counter[str]()
    for text in texts:
        counts.update(normalise(text))
    found = sorted((-count, letter) for letter, count in counts.items() if not letter.isspace())
    if not found:
        raise BadInput("there is no text to learn subwords from")
    return [letter for _, letter in found[:most]]
