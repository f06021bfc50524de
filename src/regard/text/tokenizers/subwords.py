"""Subword vocabularies: raw text to ids and back, on top of the `tokenizers` library.

BPE-dropout (Provilkov et al., 2020, arXiv:1910.13267, algorithm 1) skips merges at random.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heapify, heappop, heappush
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any
from warnings import warn

import numpy as np
from tokenizers import Encoding, Tokenizer, processors, trainers

from regard.core.errors import BadInput, DataWarning
from regard.core.files import read_bytes, write_text
from regard.core.forks import TOKENIZER_THREADS
from regard.core.progress import reporting
from regard.text.segmentation import Segmentation, lost_words, stretched, touched
from regard.text.tokenizers.bounds import check_text, library_errors, parse_tokenizer
from regard.text.vocabulary import Vocabulary, check_pieces
from regard.text.words import Span

# Names of special tokens in common vocabularies.
_PADS = ("<pad>", "[PAD]")
_BEGINS = ("<s>", "[CLS]", "<|endoftext|>")
_ENDS = ("</s>", "[SEP]", "<|endoftext|>")
_UNKNOWNS = ("<unk>", "[UNK]")

LONG = 4_096  # characters or ids, above which other threads run while the library reads
UNREAD = "the tokenizer cannot read this text"
LETTER = "a"  # a text of one word, for questions about the tokenizer
LONG_WORD = 2_000  # characters of a word, or of white space, from which a vocabulary is learned
_RUN = re.compile(r"\S+|\s+")
_VISIBLE = str.maketrans({" ": "▁", "\n": "⏎", "\t": "⇥"})


@dataclass(frozen=True)
class Merges:
    """The merge table of a BPE model in ids, for dropout by a key: the library's has no seed."""

    letters: dict[str, list[int]]  # the id of a character, as a list of one
    ranks: dict[tuple[int, int], tuple[int, int]]  # pair -> (rank, merged id); lowest rank first
    byte_ids: list[int]  # id of each byte, empty without byte fallback
    unk: list[int]  # replaces an unknown character, as a list of one

    def segment(self, word: str, rate: float, draw: Callable[[], float]) -> list[int]:
        """Ids of one pre-token. At each step every possible merge is dropped with probability
        ``rate`` and the best remaining one is applied, until all are dropped.

        Trying merges from the best down until one is not dropped gives the distribution of the
        paper's loop, which draws for every pair, but takes O(n log n) for a word of n letters.
        """
        letters, ranks = self.letters, self.ranks
        ids = [i for letter in word for i in letters.get(letter) or self._spelled(letter)]
        queue = [(*ranks[pair], i) for i, pair in enumerate(pairwise(ids)) if pair in ranks]
        if not queue:
            return ids
        heapify(queue)
        size = len(ids)
        before, after = list(range(-1, size - 1)), list(range(1, size + 1))
        dropped = []
        while queue:
            best = rank, merged, left = heappop(queue)
            right = after[left]
            if right == size or ranks.get((ids[left], ids[right])) != (rank, merged):
                continue  # one of the pair is part of another merge by now
            if draw() < rate:
                dropped.append(best)
                continue
            ids[left], ids[right] = merged, -1
            after[left] = follower = after[right]
            if follower < size:
                before[follower] = left
                if merge := ranks.get((merged, ids[follower])):
                    heappush(queue, (*merge, left))
            if (leader := before[left]) >= 0 and (merge := ranks.get((ids[leader], merged))):
                heappush(queue, (*merge, leader))
            while dropped:
                heappush(queue, dropped.pop())
        return [i for i in ids if i >= 0]

    def _spelled(self, letter: str) -> list[int]:
        return [self.byte_ids[byte] for byte in letter.encode()] if self.byte_ids else self.unk


def read_merges(model: dict[str, Any]) -> Merges:
    """The merge table from the ``model`` part of a tokenizer.json."""
    unread = ["continuing_subword_prefix", "end_of_word_suffix", "ignore_merges"]
    unread += [] if model["byte_fallback"] else ["fuse_unk"]
    if any(model.get(name) for name in unread):
        raise BadInput(f"BPE-dropout cannot read a vocabulary with any of {', '.join(unread)}")
    ids: dict[str, int] = model["vocab"]
    ranks = {
        (ids[left], ids[right]): (rank, ids[left + right])
        for rank, (left, right) in enumerate(model["merges"])
    }
    letters = {token: [i] for token, i in ids.items() if len(token) == 1}
    byte_ids = [ids[f"<0x{byte:02X}>"] for byte in range(256)] if model["byte_fallback"] else []
    unk = [ids[model["unk_token"]]] if model["unk_token"] else []
    return Merges(letters, ranks, byte_ids, unk)


# Set explicitly, this prevents the warning of the library about forked children.
os.environ.setdefault(TOKENIZER_THREADS, "true")


class Subwords(Vocabulary):
    """Subword vocabulary. "</s>" in a text is four characters, never the special token."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        tokenizer.no_padding()
        tokenizer.no_truncation()
        tokenizer.encode_special_tokens = True  # means: as ordinary text
        self._tokenizer = tokenizer
        self._content: dict[str, Any] = json.loads(tokenizer.to_str())

    def __reduce__(self) -> tuple[Callable[..., "Subwords"], tuple[object, ...]]:
        return _parse, (self._tokenizer.to_str(),)

    def __len__(self) -> int:
        return self._size

    @property
    def kind(self) -> str:
        model = self._content["model"]["type"].lower()
        return "byte-bpe" if model == "bpe" and self._byte_level else model

    @property
    def pad(self) -> int:
        return self._special(_PADS)

    @property
    def bos(self) -> int:
        return self._special(_BEGINS)

    @property
    def eos(self) -> int:
        return self._special(_ENDS)

    @property
    def unk(self) -> int:
        return self._special(_UNKNOWNS)

    @cached_property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits that identify the vocabulary.

        They do not depend on the row template, which does not change the ids of texts.
        """
        content = json.dumps({**self._content, "post_processor": None}, sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def normalise(self, text: str) -> str:
        """The normal form of ``text``, which the byte-safe kinds reproduce exactly."""
        return self._normalise(text).removeprefix(self._prefix)

    def encode(self, text: str) -> list[int]:
        return self._encoding(text).ids

    def _encoding(self, text: str) -> Encoding:
        """The library's encoding of a text; only calls for batches let other threads run."""
        check_text(text)
        with library_errors(UNREAD):
            if len(text) <= LONG:
                return self._tokenizer.encode(text, add_special_tokens=False)
            return self._tokenizer.encode_batch([text], add_special_tokens=False)[0]

    def encode_all(self, texts: Iterable[str]) -> list[list[int]]:
        texts = list(texts)
        for number, text in enumerate(texts, start=1):
            check_text(text, number)
        with library_errors("the tokenizer cannot read these texts"):
            encodings = self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def encode_dropped(self, text: str, rate: float, key: tuple[int, ...]) -> list[int]:
        """A random segmentation; each merge is skipped with probability ``rate`` (BPE-dropout).

        The segmentation depends only on ``key``, also across machines.
        """
        if not 0 <= rate <= 1:
            raise BadInput(f"BPE-dropout rate {rate} is not between 0 and 1")
        draw = Random(",".join(map(str, key))).random
        check_text(text)
        with library_errors(UNREAD):
            words = self._tokenizer.pre_tokenizer.pre_tokenize_str(self._normalise(text))
        return [piece for word, _ in words for piece in self._merges.segment(word, rate, draw)]

    def decode(self, ids: Sequence[int]) -> str:
        with library_errors("the tokenizer cannot decode these ids"):
            if len(ids) <= LONG:
                return self._tokenizer.decode(list(ids), skip_special_tokens=True)
            return self._tokenizer.decode_batch([list(ids)], skip_special_tokens=True)[0]

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Each token in readable form: ``▁`` is a space, ``⏎`` a newline, ``<0xE2>`` one byte."""
        return [self._rendered[i] for i in ids]

    def number(self, piece: str) -> int:
        """The id of a piece by its exact name."""
        return self._special((piece,))

    def has(self, piece: str) -> bool:
        """Whether there is a piece of this exact name."""
        return self._find((piece,)) is not None

    @cached_property
    def byte_sizes(self) -> np.ndarray | None:
        """The number of bytes of each id (special tokens: 0), in byte-level BPE only."""
        if self.kind != "byte-bpe":
            return None
        special = {token["id"] for token in self._content["added_tokens"] if token["special"]}
        tokens = (self._tokenizer.id_to_token(i) or "" for i in range(len(self)))
        return np.array([len(t) * (i not in special) for i, t in enumerate(tokens)], np.int64)

    def strips_left(self, number: int) -> bool:
        """Whether an added token removes the white space before it."""
        tokens = self._content["added_tokens"]
        return any(token["id"] == number and token["lstrip"] for token in tokens)

    def cut(self, text: str) -> tuple[list[int], list[Span]]:
        """Ids of ``text``, and the span of characters that the library reports for each."""
        encoding = self._encoding(text)
        return encoding.ids, [Span(start, end) for start, end in encoding.offsets]

    def row_parts(self, texts: int) -> list[tuple[int | None, int, int]]:
        """Row of one text or two by the post-processor: for each text (0 or 1) or special token
        (None), its id and segment; a text has the id of its first token."""
        with library_errors("the row template of the tokenizer cannot be used"):
            encoding = self._tokenizer.encode(LETTER, LETTER if texts == 2 else None)
        parts = [*zip(encoding.sequence_ids, encoding.ids, encoding.type_ids, strict=True)]
        if {text for text, *_ in parts} - {None} != {*range(texts)}:
            raise BadInput(f"the vocabulary has no token for the letter {LETTER!r}")
        pairs = zip(parts, [(None, 0, 0), *parts], strict=False)
        return [part for part, last in pairs if part[0] is None or part[0] != last[0]]

    @cached_property
    def adds_space(self) -> bool:
        """Whether encoding puts a space before the first word of a text."""
        return "".join(self.pieces(self.encode(LETTER))).startswith("▁")

    @cached_property
    def unsettled_ids(self) -> frozenset[int]:
        """The ids after which a token may change the text before it, in byte fallback only.

        They are the ids of single bytes, which are decoded together, all as characters or none, and
        of special tokens, which do not separate bytes.
        """
        if '"ByteFallback"' not in json.dumps(self._content["decoder"]):
            return frozenset()
        special = {token["id"] for token in self._content["added_tokens"] if token["special"]}
        numbers = (self._find((f"<0x{byte:02X}>",)) for byte in range(256))
        return frozenset(number for number in numbers if number is not None) | special

    def segment(self, text: str) -> Segmentation:
        ids, spans = self.cut(text)
        if self._prefix and self.pieces(ids[:1]) == ["▁"]:
            spans[0] = Span(0, 0)  # the space that encoding adds before the text
        spans = stretched(text, spans)
        return Segmentation(tuple(ids), tuple(spans), tuple(touched(text, spans)))

    def unknown(self, text: str) -> list[Span]:
        """The words of ``text`` with an unknown token; none in byte-safe kinds."""
        return lost_words(text, self.segment(text), self._find(_UNKNOWNS))

    def with_special_tokens(self, tokens: Sequence[str]) -> "Subwords":
        """The vocabulary with further special tokens at its end."""
        tokenizer = Tokenizer.from_str(self.content)
        tokenizer.add_special_tokens([*tokens])
        return Subwords(tokenizer)

    @property
    def content(self) -> str:
        """The content of its tokenizer.json."""
        return self._tokenizer.to_str(pretty=True)

    def json_files(self, end: bool = False) -> dict[str, str]:
        """tokenizer.json and tokenizer_config.json; with ``end``, EOS is put after a text."""
        names = {"pad_token": self.pad, "unk_token": self.unk, "eos_token": self.eos}
        roles = {role: self._tokenizer.id_to_token(number) for role, number in names.items()}
        tokenizer = Tokenizer.from_str(self.content)
        if end:
            tokenizer.post_processor = end_of_texts(str(roles["eos_token"]), self.eos)
        settings = {"tokenizer_class": "PreTrainedTokenizerFast", **roles}
        return {
            "tokenizer.json": tokenizer.to_str(),
            "tokenizer_config.json": json.dumps(settings, indent=2),
        }

    def save(self, path: Path) -> None:
        """Write tokenizer.json in the format of the library, which ``transformers`` reads."""
        write_text(path, self.content)

    @staticmethod
    def load(path: Path) -> "Subwords":
        """Read any tokenizer.json."""
        with library_errors(f"{path}: not a tokenizer.json", Exception):
            written = json.loads(read_bytes(path))
            if isinstance(pieces := written["model"].get("vocab"), dict):
                check_pieces(pieces, path)
            subwords = Subwords(parse_tokenizer(written, path))
        subwords._check_added(written.get("added_tokens") or [], path)
        return subwords

    def _check_added(self, tokens: list[dict[str, Any]], path: Path) -> None:
        """Refuse added tokens to which the library assigns other ids than the file."""
        for token in tokens:
            if (number := self._tokenizer.token_to_id(name := token["content"])) != token["id"]:
                difference = f"{name!r} has the id {token['id']}, but the library assigns {number}"
                raise BadInput(f"{path}: {difference}")
        check_pieces(self._tokenizer.get_vocab(), path)

    @cached_property
    def _size(self) -> int:
        """The largest id plus one: some ids may be unused."""
        return 1 + max(self._tokenizer.get_vocab().values(), default=-1)

    @cached_property
    def _byte_level(self) -> bool:
        return '"ByteLevel"' in json.dumps(self._content["pre_tokenizer"])

    @cached_property
    def _prefix(self) -> str:
        """The space that encoding adds before a text, so that its first word is like any other."""
        normalizer = self._content["normalizer"] or {}
        steps = normalizer.get("normalizers", [normalizer])
        return "".join(step["prepend"] for step in steps if step.get("type") == "Prepend")

    @cached_property
    def _merges(self) -> Merges:
        if self._content["model"]["type"] != "BPE":
            raise BadInput(f"BPE-dropout needs a bpe vocabulary; this one is {self.kind}")
        return read_merges(self._content["model"])

    @cached_property
    def _rendered(self) -> list[str]:
        tokens = [self._tokenizer.id_to_token(i) or "" for i in range(len(self))]
        return [(_readable(t) if self._byte_level else t).translate(_VISIBLE) for t in tokens]

    def _normalise(self, text: str) -> str:
        normalizer = self._tokenizer.normalizer
        with library_errors(UNREAD):
            return normalizer.normalize_str(text) if normalizer else text

    def _find(self, names: tuple[str, ...]) -> int | None:
        ids = (self._tokenizer.token_to_id(name) for name in names)
        return next((i for i in ids if i is not None), None)

    def _special(self, names: tuple[str, ...]) -> int:
        number = self._find(names)
        if number is None:
            raise BadInput(f"the vocabulary has none of the tokens {', '.join(names)}")
        return number


def end_of_texts(name: str, number: int) -> processors.PostProcessor:
    """Row template with EOS, of this name and id, after each text."""
    return processors.TemplateProcessing(
        single=f"$A {name}", pair=f"$A {name} $B {name}", special_tokens=[(name, number)]
    )


def _parse(content: str) -> Subwords:
    return Subwords(Tokenizer.from_str(content))


def _letters() -> dict[str, int]:
    """The alphabet of byte-level BPE (GPT-2), in which every byte is written as a visible letter.

    Printable bytes of Latin-1 stand for themselves, the others are numbered from U+0100 up. The
    library lists the letters without their bytes.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    unprintable = [byte for byte in range(256) if byte not in printable]
    numbered = {chr(0x100 + number): byte for number, byte in enumerate(unprintable)}
    return {chr(byte): byte for byte in printable} | numbered


_BYTE_OF = _letters()


def _readable(token: str) -> str:
    """A token as text, or its bytes in hexadecimal where they are not whole characters."""
    if not all(letter in _BYTE_OF for letter in token):
        return token  # an added token, written as it is
    data = bytes(_BYTE_OF[letter] for letter in token)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "".join(f"<0x{byte:02X}>" for byte in data)


Frame = Callable[[], Tokenizer]
LibraryModel = dict[str, Any]  # "model" of a tokenizer.json
"""A function that makes a tokenizer without its vocabulary."""


def learn_model(
    frame: Tokenizer,
    texts: Iterable[str],
    trainer: Callable[..., trainers.Trainer],
    vocab: int,
    special: Iterable[str],
    **options: object,
) -> LibraryModel:
    """The ``model`` of the tokenizer.json that the library learns."""
    short = ShortWords(texts)
    settings = {"vocab_size": vocab, "special_tokens": [*special], "show_progress": False}
    with reporting("learning the vocabulary", short) as counted:
        frame.train_from_iterator(counted, trainer(**settings, **options))
    short.warn()
    return json.loads(frame.to_str())["model"]


def learn_in_two_passes(
    frame: Frame,
    texts: Iterable[str],
    trainer: Callable[..., trainers.Trainer],
    vocab: int,
    special: Iterable[str],
) -> LibraryModel:
    """The ``model`` that the library learns, first for the alphabet alone.

    The library numbers the letters at the marked side of words (after ## or before </w>) in random
    order unless they are reserved, and numbers decide between equally frequent pairs.
    """
    texts = list(texts) if isinstance(texts, Iterator) else texts
    reserved = [*special]
    letters = learn_model(frame(), texts, trainer, 0, reserved)["vocab"].keys()
    reserved += sorted(letters - {*reserved})
    return learn_model(frame(), texts, trainer, vocab, reserved)


class ShortWords:
    """Texts for a trainer, whose time is quadratic in the longest word: longer ones are cut."""

    def __init__(self, texts: Iterable[str]):
        self.texts, self.long_words, self.longest = texts, 0, 0

    def __iter__(self) -> Iterator[str]:
        for text in self.texts:
            yield from self._parts(text) if len(text) > LONG_WORD else (text,)

    def _parts(self, text: str) -> Iterator[str]:
        cuts = [0]
        for run in _RUN.finditer(text):
            start, end = run.span()
            if end - start > LONG_WORD:
                cuts += range(start + LONG_WORD, end, LONG_WORD)
                self.long_words += 1
                self.longest = max(self.longest, end - start)
        for start, end in pairwise([*cuts, len(text)]):
            yield text[start:end]

    def warn(self) -> None:
        """Say which words were cut, if there were any."""
        if self.long_words:
            cut = f"{self.long_words:,} words of more than {LONG_WORD:,} characters were cut"
            long = f"the longest has {self.longest:,}"
            warn(f"data.train: {cut} to learn a vocabulary ({long})", DataWarning, stacklevel=2)


def too_small(vocab: int, least: int | None = None) -> BadInput:
    """Error of a vocabulary that is too small for the characters of the texts.

    ``least`` is the size that suffices, if it is known.
    """
    small = f"a vocabulary of {vocab} is too small for the characters of these texts"
    return BadInput(f"text.vocab: {small}" + (f"; write {least} or more" if least else ""))
