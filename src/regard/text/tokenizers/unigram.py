"""SentencePiece unigrams as ALBERT, XLNet and T5 have them (Kudo, 2018): of all ways to cut a text
into pieces, the most probable; the space before a word is part of its first piece.

From tokenizer.json the tokenizers are put together as ``transformers`` does it, so that both give
the same ids. From spiece.model alone they are the published ones, with which the models were
trained and from which the published tokenizer.json files were made; ``transformers`` 5 differs. The
published code cuts a piece such as "▁1999," again, into "▁1999" and ","; here such pieces lose
``LESS``, as in those tokenizer.json files. And pieces that the file calls user-defined, such as "."
and "(", are pieces like others: no text around them gets a space.
"""

import json
import re
from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple, TypeGuard, cast

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers.trainers import UnigramTrainer

from regard.core.checks import is_whole
from regard.core.errors import BadInput
from regard.core.files import JSON, read_bytes, read_json
from regard.text.templates import XLNET_TEMPLATE, Template
from regard.text.tokenizers.bounds import check_charsmap
from regard.text.tokenizers.family import SPACE, Learned, TokenizerFamily, TokenizerSettings, Vocab
from regard.text.tokenizers.sentencepiece import read_unigram
from regard.text.tokenizers.subwords import learn_model, too_small
from regard.text.vocabulary import check_pieces

FILE = "spiece.model"
SENTINELS = 100  # of T5, by default
SENTINEL = re.compile(r"▁?<extra_id_(\d+)>").fullmatch  # mT5's have the space before them
LESS = 100.0  # by which a piece such as "9," is less probable: digits and commas are kept apart


class UnigramText(NamedTuple):
    """Normalisation of texts: lower case, accents kept, space before the first word."""

    lower: bool
    accents: bool
    prefix_space: bool = True


class Unigram(TokenizerFamily):
    """Tokenizers of ALBERT; ``unknown`` is the id of the unknown token in all vocabularies."""

    name = kind = "unigram"
    model = "Unigram"
    classes: ClassVar[tuple[str, ...]] = ("AlbertTokenizer",)
    files: ClassVar = (FILE,)
    special_tokens: ClassVar = {
        **{"pad_token": "<pad>", "unk_token": "<unk>"},
        **{"cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"},
    }
    template = Template("cls A sep", "cls A sep B:1 sep:1")
    unknown: ClassVar[int] = 1

    def text(self, settings: TokenizerSettings) -> UnigramText:
        """The normalisation that the settings ask for."""
        flags = {"do_lower_case": True, "keep_accents": False, "add_prefix_space": True}
        return UnigramText(*(settings.flag(key, default) for key, default in flags.items()))

    def text_settings(self, lower: bool) -> dict[str, JSON]:
        """The settings of a learned tokenizer: accents are kept where the case is."""
        return {"do_lower_case": lower, "keep_accents": not lower}

    def read_files(self, folder: Path) -> Vocab:
        pieces, charsmap = _read_pieces(path := folder / FILE)
        scores = [(text, score - LESS * _ends_in_number_and_comma(text)) for text, score in pieces]
        return {**_model(scores, path), "charsmap": charsmap}

    def write_files(self, model: Vocab) -> dict[str, str]:
        return {}

    def model_in(self, content: Mapping[str, JSON], path: Path) -> Vocab:
        model = self.check(content.get("model"), path)
        pieces = model.get("vocab")
        if not _are_scored(pieces):
            raise BadInput(f"{path}: its vocab is not a list of pieces with scores")
        return {**_model(pieces, path), "charsmap": _charsmap(content, path)}

    def build(self, model: Vocab, unk: str, settings: TokenizerSettings) -> Tokenizer:
        tokenizer = Tokenizer(models.Unigram(model["scores"], self.unknown, byte_fallback=False))
        _frame(tokenizer, self.text(settings))
        if model["charsmap"]:
            steps = [tokenizer.normalizer, normalizers.Precompiled(model["charsmap"])]
            tokenizer.normalizer = normalizers.Sequence(steps)
        return tokenizer

    def learn(self, texts: Iterable[str], vocab: int, lower: bool) -> Learned:
        frame, settings = Tokenizer(models.Unigram()), self.text_settings(lower)
        _frame(frame, self.text(TokenizerSettings(settings)))
        special = list(self.special_tokens.values())
        learned = learn_unigram(frame, texts, vocab, special, special[self.unknown])
        scores = [*((piece, 0.0) for piece in special), *learned]
        return {**_model(scores, Path(FILE)), "charsmap": b""}, settings


class XLNetUnigram(Unigram):
    """Tokenizers of XLNet: the class token is last, and accents are always removed."""

    name, classes = "xlnet-unigram", ("XLNetTokenizer",)
    special_tokens: ClassVar = {
        **{"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"},
        **{f"{role}_token": f"<{role}>" for role in ("cls", "sep", "pad", "mask", "eod", "eop")},
    }
    template = XLNET_TEMPLATE
    unknown: ClassVar[int] = 0

    def text(self, settings: TokenizerSettings) -> UnigramText:
        return UnigramText(settings.flag("do_lower_case", False), accents=False)

    def text_settings(self, lower: bool) -> dict[str, JSON]:
        return {"do_lower_case": lower}


class T5Unigram(Unigram):
    """Tokenizers of T5 (Raffel et al., 2019): EOS ends a row, and sentinels stand for spans.

    The sentinels are the last pieces, "<extra_id_0>" the very last. In texts they are tokens, and
    decoding keeps them: a model that fills spans reads and writes them.
    """

    name, kind = "t5-unigram", "t5-unigram"
    classes = ("T5Tokenizer", "MT5Tokenizer")
    special_tokens: ClassVar = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    template = Template("A eos", "A eos B eos")
    unknown: ClassVar[int] = 2

    def read_files(self, folder: Path) -> Vocab:
        pieces, charsmap = _read_pieces(path := folder / FILE)
        settings = folder / "tokenizer_config.json"
        count = read_json(settings).get("extra_ids", SENTINELS) if settings.exists() else SENTINELS
        if not is_whole(count, 0, SENTINELS):
            raise BadInput(f"{settings}: extra_ids must be from 0 to {SENTINELS}, not {count!r}")
        return {**_model([*pieces, *_sentinels(count)], path), "charsmap": charsmap}

    def build(self, model: Vocab, unk: str, settings: TokenizerSettings) -> Tokenizer:
        return unigram_tokenizer(model["scores"], self.unknown, model["charsmap"])

    def complete(self, tokenizer: Tokenizer) -> Tokenizer:
        content = json.loads(tokenizer.to_str())
        for token in content["added_tokens"]:
            token["special"] = token["special"] and not SENTINEL(token["content"])
        tokenizer = Tokenizer.from_str(json.dumps(content))
        names = sorted(filter(SENTINEL, tokenizer.get_vocab()))
        tokenizer.add_tokens([AddedToken(name, normalized=False) for name in names])
        return tokenizer

    def learn(self, texts: Iterable[str], vocab: int, lower: bool) -> Learned:
        frame = Tokenizer(models.Unigram())
        mark_spaces(frame)
        special, room = list(self.special_tokens.values()), vocab - SENTINELS
        if room <= len(special):
            few = f"a vocabulary of {vocab} has no room for pieces"
            least = SENTINELS + len(special) + 1
            raise BadInput(f"text.vocab: {few} beside {SENTINELS} sentinels; write {least} or more")
        learned = learn_unigram(frame, texts, room, special, special[self.unknown])
        scores = [*((piece, 0.0) for piece in special), *learned, *_sentinels(SENTINELS)]
        return {**_model(scores, Path(FILE)), "charsmap": b""}, {"extra_ids": SENTINELS}


def learn_unigram(
    frame: Tokenizer,
    texts: Iterable[str],
    vocab: int,
    special: Sequence[str],
    unk: str,
    reserved: int = 0,
) -> list[tuple[str, float]]:
    """Learn pieces with scores; ``special`` and ``reserved`` pieces count towards ``vocab``."""
    trainer = partial(UnigramTrainer, unk_token=unk)
    try:
        learned = learn_model(frame, texts, trainer, vocab - reserved, special)["vocab"]
    except Exception as error:  # the library raises bare Exception
        if "not large enough" in str(error):
            raise too_small(vocab) from error
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


def sentinel_ids(pieces: Iterable[str]) -> list[int]:
    """The ids of the sentinels "<extra_id_0>", "<extra_id_1>", … among the pieces by their ids."""
    numbers = {int(m[1]): i for i, piece in enumerate(pieces) if (m := SENTINEL(piece))}
    return [numbers[i] for i in range(len(numbers)) if i in numbers]


def _sentinels(count: int) -> list[tuple[str, float]]:
    """Pieces of this number of sentinels, the last first."""
    return [(f"<extra_id_{number}>", 0.0) for number in reversed(range(count))]


def _read_pieces(path: Path) -> tuple[list[tuple[str, float]], bytes]:
    try:
        pieces, charsmap = read_unigram(read_bytes(path))
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from None
    check_charsmap(charsmap, path)
    return pieces, charsmap


def _frame(tokenizer: Tokenizer, text: UnigramText) -> None:
    """Set the normalizer, pre-tokenizer and decoder of a tokenizer."""
    lower, accents, prefix_space = text
    steps: list[normalizers.Normalizer] = []
    steps += [normalizers.Replace(quotes, '"') for quotes in ("``", "''")]
    steps += [] if accents else [normalizers.NFKD(), normalizers.StripAccents()]
    steps += [normalizers.Lowercase()] if lower else []
    tokenizer.normalizer = normalizers.Sequence(steps)
    mark_spaces(tokenizer, prefix_space)


def unigram_tokenizer(
    scores: Sequence[tuple[str, float]], unknown: int, charsmap: bytes
) -> Tokenizer:
    """Tokenizer of a SentencePiece model: its pieces with scores, and its table of characters."""
    tokenizer = Tokenizer(models.Unigram([*scores], unknown, byte_fallback=False))
    mark_spaces(tokenizer)
    if charsmap:
        tokenizer.normalizer = normalizers.Precompiled(charsmap)
    return tokenizer


def mark_spaces(tokenizer: Tokenizer, prefix_space: bool = True) -> None:
    """Set the pre-tokenizer, by which the space before a word is part of it, and the decoder."""
    scheme: Literal["always", "never"] = "always" if prefix_space else "never"
    space = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme=scheme)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), space])
    tokenizer.decoder = decoders.Metaspace(replacement=SPACE, prepend_scheme=scheme)


def _model(scores: Iterable[tuple[str, float]], path: Path) -> Vocab:
    pairs = [(str(piece), float(score)) for piece, score in scores]
    vocabulary = {piece: number for number, (piece, _) in enumerate(pairs)}
    if len(vocabulary) < len(pairs):
        raise BadInput(f"{path}: a piece is listed twice")
    check_pieces(vocabulary, path)
    return {"vocab": vocabulary, "scores": pairs}


def _are_scored(pieces: JSON) -> TypeGuard[list[tuple[str, float]]]:
    for entry in pieces if isinstance(pieces, list) else [None]:
        match entry:
            case [str(), int() | float()]:
                continue
        return False
    return True


def _charsmap(content: Mapping[str, JSON], path: Path) -> bytes:
    """The compiled table of characters in the normalizer of a tokenizer.json, or b""."""
    normalizer = content.get("normalizer")
    steps = normalizer.get("normalizers", [normalizer]) if isinstance(normalizer, dict) else []
    for step in steps if isinstance(steps, list) else []:
        if isinstance(step, dict) and step.get("type") == "Precompiled":
            try:
                table = b64decode(cast(str, step["precompiled_charsmap"]), validate=True)
            except (KeyError, TypeError, ValueError):
                raise BadInput(f"{path}: its precompiled_charsmap is not base64") from None
            check_charsmap(table, path)
            return table
    return b""


def _ends_in_number_and_comma(piece: str) -> bool:
    return len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit()
