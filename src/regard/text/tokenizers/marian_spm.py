"""Vocabularies of Marian folders: SentencePiece segments the text, vocab.json gives the ids.

Ids equal ``transformers.MarianTokenizer``'s with one exception: "</s>" in a text is text.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import ClassVar, NoReturn

from regard.core.errors import BadInput
from regard.core.files import JSON, read_bytes, read_json, write_files
from regard.text.segmentation import Segmentation, lost_words, touched
from regard.text.tokenizers.plain_tokenizer import filled
from regard.text.tokenizers.sentencepiece import (
    END,
    KIND,
    UNKNOWN,
    load_processor,
    read_unigram,
    train_unigram,
)
from regard.text.tokenizers.subwords import end_of_texts
from regard.text.tokenizers.translation_tokenizer import TranslationTokenizer
from regard.text.tokenizers.unigram import unigram_tokenizer
from regard.text.vocabulary import check_pieces
from regard.text.words import Span

SOURCE, TARGET = "source.spm", "target.spm"
VOCAB, TARGET_VOCAB = "vocab.json", "target_vocab.json"
SETTINGS, SPECIALS, ADDED = "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"
FILES = (SOURCE, TARGET, VOCAB, TARGET_VOCAB, SETTINGS, SPECIALS, ADDED)
NAMES = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
EXTRAS = ("added_tokens_decoder", "additional_special_tokens", "extra_special_tokens")
LOWEST = -1e4  # score of pieces that the source does not have

# The replacements of "clean_up_tokenization_spaces" in a decoded text, in this order.
TIDIED = {" .": ".", " ?": "?", " !": "!", " ,": ",", " ' ": "'", " n't": "n't"} | {
    f" '{end}": f"'{end}" for end in ("m", "s", "ve", "re")
}


@dataclass(frozen=True)
class MarianIds:
    """Special ids of one side, and the names of the special tokens."""

    pad: int
    bos: int
    eos: int
    unk: int
    names: frozenset[str]


class MarianPieces:
    """Vocabulary of one side; a text may begin with a language code, ``>>fra<<``, as one piece."""

    kind = KIND

    def __init__(
        self, model: bytes, vocabulary: Mapping[str, int], marks: MarianIds, tidy: bool = False
    ) -> None:
        self._arguments = (model, vocabulary, marks, tidy)
        self._processor = load_processor(model)
        self._pieces = {number: piece for piece, number in vocabulary.items()}
        self._special = {marks.pad, marks.eos, marks.unk}
        self._ids = {name: i for name, i in vocabulary.items() if name not in marks.names}
        self._tidy = tidy
        self.pad, self.bos, self.eos, self.unk = marks.pad, marks.bos, marks.eos, marks.unk

    def __reduce__(self) -> tuple[type["MarianPieces"], tuple[object, ...]]:
        return MarianPieces, self._arguments

    def __len__(self) -> int:
        return 1 + max(self._pieces)

    @cached_property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits that identify the content."""
        model, vocabulary, *_ = self._arguments
        content = model + json.dumps(dict(vocabulary), sort_keys=True).encode()
        return hashlib.sha256(content).hexdigest()[:16]

    def encode(self, text: str) -> list[int]:
        """The ids of ``text``, without any special tokens."""
        return self.encode_all([text])[0]

    def encode_all(self, texts: Iterable[str]) -> list[list[int]]:
        """The ids of each text, on all cores."""
        parted = [_without_code(text) for text in texts]
        cut = self._processor.encode([rest for _, rest in parted], out_type=str)
        rows = ([*code, *pieces] for (code, _), pieces in zip(parted, cut, strict=True))
        return [[self._id(piece) for piece in row] for row in rows]

    def encode_dropped(self, text: str, rate: float, key: tuple[int, ...]) -> list[int]:
        """Refuse BPE-dropout: the library cannot draw the same segmentation twice."""
        raise BadInput(f"BPE-dropout needs a bpe vocabulary; this one is {self.kind}")

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ``ids``; special tokens are left out."""
        known = (i for i in ids if i not in self._special and i in self._pieces)
        text = self._processor.decode_pieces([self._pieces[i] for i in known])
        text = text.replace("▁", " ").strip()
        for wide, narrow in TIDIED.items() if self._tidy else ():
            text = text.replace(wide, narrow)
        return text

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Each token in readable form: ``▁`` is a space."""
        return [self._pieces.get(i, "") for i in ids]

    def segment(self, text: str) -> Segmentation:
        """The ids of ``text`` with their characters and words; ``ids`` equals ``encode(text)``."""
        code, rest = _without_code(text)
        cut = self._processor.encode(rest, return_type="offset_mapping")
        start = len(text) - len(rest)
        ids = [self._id(piece) for piece in (*code, *cut["pieces"])]
        spans = [Span(0, start) for _ in code]
        for piece, (begin, end) in zip(cut["pieces"], cut["offsets"], strict=True):
            if begin == end and piece != "▁":
                end += 1  # of several pieces of one character the library gives it only to the last
            spans.append(Span(start + begin, start + end))
        return Segmentation(tuple(ids), tuple(spans), tuple(touched(text, spans)))

    def unknown(self, text: str) -> list[Span]:
        """The words of ``text`` with an unknown token."""
        return lost_words(text, self.segment(text), self.unk)

    def save(self, path: Path) -> None:
        """Write the SentencePiece model, as it was read."""
        model, *_ = self._arguments
        write_files(path.parent, {path.name: model})

    def _id(self, piece: str) -> int:
        return self._ids.get(piece, self.unk)


@dataclass(frozen=True, repr=False)
class MarianTokenizer(TranslationTokenizer):
    """Tokenizer of a Marian folder: both languages, and its files as they were read."""

    name: ClassVar = "marian"
    FILES: ClassVar = FILES
    starts_from_zero: ClassVar = True

    files: Mapping[str, bytes]

    def of_side(self, side: str) -> NoReturn:
        raise BadInput("the vocabularies of a Marian folder cannot be used by other models")

    def save(self, folder: Path) -> None:
        write_files(folder, self.files, stale=(*FILES, *TranslationTokenizer.FILES))

    def json_files(self) -> dict[str, str]:
        """tokenizer.json, by the library ``tokenizers``, of one vocabulary for both languages.

        Pieces of the target alone get ``LOWEST`` as score: they are decoded, and only read where
        no others fit. Language codes are pieces like others.
        """
        if TARGET_VOCAB in self.files:
            return {}
        vocabulary = json.loads(self.files[VOCAB])
        pieces, charsmap = read_unigram(self.files[SOURCE])
        scores, ids = dict(pieces), {number: piece for piece, number in vocabulary.items()}
        every = (ids.get(number, f"(no piece {number})") for number in range(len(self.target)))
        scored = [(piece, scores.get(piece, LOWEST)) for piece in every]
        tokenizer = unigram_tokenizer(scored, self.source.unk, charsmap)
        special = (self.target.eos, self.target.unk, self.target.pad)
        names = {role: ids[number] for role, number in zip(NAMES, special, strict=True)}
        tokenizer.add_special_tokens([*names.values()])
        tokenizer.post_processor = end_of_texts(names["eos_token"], self.target.eos)
        settings = {"tokenizer_class": "MarianTokenizer", **names}
        settings |= json.loads(self.files.get(SETTINGS, b"{}"))
        return {"tokenizer.json": tokenizer.to_str(), SETTINGS: json.dumps(settings, indent=1)}

    @staticmethod
    def load(folder: Path, bos: int | None = None) -> "MarianTokenizer":
        files = {name: read_bytes(folder / name) for name in FILES if (folder / name).exists()}
        if absent := [name for name in (SOURCE, TARGET, VOCAB) if name not in files]:
            raise BadInput(f"{folder}: a Marian tokenizer needs {', '.join(absent)}")
        both = (read_json(folder / name) for name in (SPECIALS, SETTINGS) if name in files)
        settings = {key: value for content in both for key, value in content.items()}
        eos, unk, pad = (_content(settings.get(key) or name) for key, name in NAMES.items())
        added = read_json(folder / ADDED) if ADDED in files else {}
        _refuse_extras(folder, settings, added, {eos, unk, pad})

        # With two vocabularies transformers takes end and pad from the first for both.
        source = target = _vocabulary(folder / VOCAB, (eos, unk, pad))
        target_path = folder / VOCAB
        if settings.get("separate_vocabs"):
            target_path = folder / TARGET_VOCAB
            target = _vocabulary(target_path, (eos, unk))
        if source[eos] != target[eos]:
            raise BadInput(
                f"{target_path}: {eos} has id {target[eos]}, but {source[eos]} in {VOCAB}"
            )
        tidy = bool(settings.get("clean_up_tokenization_spaces"))

        def side(name: str, vocabulary: dict[str, int]) -> MarianPieces:
            first = source[pad] if bos is None else bos
            names = frozenset((eos, unk, pad))
            marks = MarianIds(source[pad], first, source[eos], vocabulary[unk], names)
            try:
                return MarianPieces(files[name], vocabulary, marks, tidy)
            except BadInput as error:
                raise BadInput(f"{folder / name}: {error}") from None

        first = side(SOURCE, source)
        same = files[SOURCE] == files[TARGET] and source is target
        return MarianTokenizer(first, first if same else side(TARGET, target), files)


def train_marian_tokenizer(
    sources: Iterable[str], targets: Iterable[str], *, vocab: int, normalise: str, lower: bool
) -> MarianTokenizer:
    """Learn one SentencePiece model of both languages, with the files of a Marian folder.

    The model decides the ids; the pad, with which a decoder begins, is the last id.
    """
    model = train_unigram(filled(chain(sources, targets)), vocab, normalise, lower, reserved=1)
    processor = load_processor(model)
    count = len(processor)
    vocabulary = {processor.id_to_piece(number): number for number in range(count)}
    vocabulary[NAMES["pad_token"]] = count
    marks = MarianIds(count, count, END, UNKNOWN, frozenset(NAMES.values()))
    settings = {"tokenizer_class": "MarianTokenizer", **NAMES, "separate_vocabs": False}
    texts = {VOCAB: vocabulary, SETTINGS: settings}
    files = {name: json.dumps(content, indent=1).encode() for name, content in texts.items()}
    both = MarianPieces(model, vocabulary, marks)
    return MarianTokenizer(both, both, {SOURCE: model, TARGET: model, **files})


def _without_code(text: str) -> tuple[list[str], str]:
    """The language code at the start of a text, or nothing, and the rest."""
    end = text.find("<<") if text.startswith(">>") else -1
    return ([], text) if end < 0 else ([text[: end + 2]], text[end + 2 :])


def _refuse_extras(
    folder: Path, settings: Mapping[str, JSON], added: Mapping[str, JSON], special: set[str]
) -> None:
    """Refuse unsupported settings that would change the ids."""
    if settings.get("sp_model_kwargs"):
        raise BadInput(f"{folder / SETTINGS}: sp_model_kwargs are not supported")
    more = [token for key in EXTRAS for token in _several(settings.get(key))]
    if strange := [name for name in (*map(_content, more), *added) if name not in special]:
        raise BadInput(f"{folder / SETTINGS}: added tokens are not supported ({strange[0]!r})")


def _several(tokens: JSON) -> list[JSON]:
    """Tokens as folders list them: as a list, by their ids or by their roles."""
    if isinstance(tokens, dict):
        return list(tokens.values())
    return tokens if isinstance(tokens, list) else [tokens] if tokens else []


def _content(token: JSON) -> str:
    """The name of a special token, which newer folders wrap in its properties."""
    return str(token.get("content") if isinstance(token, dict) else token)


def _vocabulary(path: Path, special: Sequence[str]) -> dict[str, int]:
    vocabulary = check_pieces(read_json(path), path, distinct=False)
    if absent := [name for name in special if name not in vocabulary]:
        raise BadInput(f"{path}: has no {', '.join(absent)}")
    return vocabulary
