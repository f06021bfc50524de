"""Nearest neighbours by cosine, of static vectors and of words in context (Peters et al., 2018).

Vectors are read in parts, of which only the nearest are stored. The embedding layer of a model
holds static vectors of words. The vector of a word in context is the mean of the states of its
tokens; its neighbours are the words of all texts whose vectors have the largest cosines with it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice
from typing import Any, Generic, NamedTuple, TypeVar, cast

import numpy as np
import torch
from torch import nn

from regard.core.checks import check_whole, listed
from regard.core.errors import BadInput
from regard.data.readers.static_vectors import StaticVectors
from regard.inference.model_runner import ModelRunner
from regard.models.encoder_decoder import EncoderDecoderModule
from regard.models.trunk_with_heads import TrunkWithHeadsModule
from regard.text.tokenizers.list import Tokenizer
from regard.text.tokenizers.row_tokenizer import require_tokenizer
from regard.text.vocabulary import Vocabulary
from regard.views.view_record import ViewRecord

AT_ONCE = 256  # inputs or texts in memory
TOKENS = 1 << 14  # looked up at once
AROUND = 6  # words shown before and after a word
Item = TypeVar("Item")
Part = tuple[Sequence[Item], np.ndarray]
"""Items, and their vectors of length 1, (items, width)."""


Inputs = Iterable[object]


class Neighbour(NamedTuple, Generic[Item]):
    """Neighbour of a query: an item, and its cosine."""

    cosine: float
    item: Item


def nearest(
    queries: Sequence[object], queries_BD: np.ndarray, parts: Iterable[Part[Item]], top: int
) -> list[list[Neighbour[Item]]]:
    """Find the ``top`` items of all parts for each query, without the query itself."""
    best: list[list[Neighbour[Item]]] = [[] for _ in queries]
    for items, vectors_ND in parts:
        cosines_BN = queries_BD @ vectors_ND.T
        for number, (query, cosines_N) in enumerate(zip(queries, cosines_BN, strict=True)):
            order = np.argsort(-cosines_N, kind="stable")
            indices = islice((n for n in order if items[n] != query), top)
            new = [Neighbour(float(cosines_N[n]), items[n]) for n in indices]
            ranked = sorted([*best[number], *new], key=lambda neighbour: -neighbour.cosine)
            best[number] = ranked[:top]
    return best


def neighbours(
    model: Any, queries: Inputs, inputs: Inputs, top: int = 5, pool: str | None = None
) -> list[list[Neighbour[int]]]:
    """Find the ``top`` inputs nearest to each query, best first, by the cosine of their vectors.

    Queries and inputs are texts or images, as ``Model.embed`` reads them with this ``pool``. The
    item of a neighbour is the index of an input. Inputs may be any iterable: a few are in memory at
    once.
    """
    check_whole("top", top, 1)
    queries = listed(queries, "queries")
    inputs = inputs if isinstance(inputs, Iterator) else listed(inputs, "inputs")
    parts = vectors_in_parts(model, zip(count(), inputs, strict=False), pool)
    return nearest([None] * len(queries), _vectors(model, queries, pool), parts, top)


def vectors_in_parts(
    model: Any, items: Iterable[tuple[Item, object]], pool: str | None
) -> Iterator[Part[Item]]:
    """Items and the vectors of their inputs, from pairs (item, input)."""
    pairs = iter(items)
    while part := list(islice(pairs, AT_ONCE)):
        yield [item for item, _ in part], _vectors(model, [each for _, each in part], pool)


def _vectors(model: Any, inputs: list[object], pool: str | None) -> np.ndarray:
    return model.embed(inputs, pool, normalise=True, as_numpy=True)


@torch.no_grad()
def word_vectors(
    module: nn.Module, tokenizer: Tokenizer | None, words: Iterable[str]
) -> StaticVectors:
    """Mean of the token vectors of each word, tokenised as inside a text.

    Words with an unknown token have no vector.
    """
    vocabulary = require_tokenizer(tokenizer).vocabularies[0]
    tokens = {
        word: ids
        for word in dict.fromkeys(words)
        if not vocabulary.unknown(word) and len(ids := inner_tokens(vocabulary, word))
    }
    if not tokens:
        raise BadInput("the model knows none of these words")
    embed = cast(EncoderDecoderModule | TrunkWithHeadsModule, module).encoder.embed
    ids, device = np.concatenate([*tokens.values()]), next(module.parameters()).device
    parts = [
        embed.static(part).float().cpu().numpy()
        for part in torch.from_numpy(ids.astype(np.int64)).to(device).split(TOKENS)
    ]
    counts_N = np.array([*map(len, tokens.values())])
    sums_ND = np.add.reduceat(np.concatenate(parts), np.cumsum(counts_N) - counts_N)
    return StaticVectors(tuple(tokens), (sums_ND / counts_N[:, None]).astype(np.float32))


def inner_tokens(vocabulary: Vocabulary, word: str) -> np.ndarray:
    """Token ids of a word inside a text; some tokenizers treat the first word differently."""
    cut = vocabulary.segment(f"{word} {word}")
    second = [number for number, span in enumerate(cut.spans) if span.end > len(word)]
    return np.asarray(cut.ids)[second]


class LineOfText(NamedTuple):
    """Text, with its line number in a file; 0 without a file."""

    number: int
    text: str


@dataclass(frozen=True)
class WordInContext:
    """Word ``words[place]`` of a line of text."""

    line: int
    words: tuple[str, ...]
    place: int

    @property
    def word(self) -> str:
        """The word itself."""
        return self.words[self.place]

    def __str__(self) -> str:
        first, last = max(0, self.place - AROUND), self.place + 1 + AROUND
        before, after = self.words[first : self.place], self.words[self.place + 1 : last]
        left, right = ["…"] * (first > 0), ["…"] * (last < len(self.words))
        return " ".join([*left, *before, f"[{self.word}]", *after, *right])


@dataclass(frozen=True, eq=False)
class ContextualWords:
    """Reader of texts with a model: each word, and its vector at the layer of a tape ``path``."""

    runner: ModelRunner
    tokenizer: Tokenizer
    path: str

    def read(self, lines: Iterable[LineOfText]) -> Iterator[tuple[list[WordInContext], np.ndarray]]:
        """Words and their vectors of length 1, a few texts at once; punctuation is left out."""
        texts = iter(lines)
        while part := list(islice(texts, AT_ONCE)):
            rows = [(line.number, self.tokenizer.read_words(line.text)) for line in part]
            rows = [(number, row) for number, row in rows if row.words]
            words, vectors = list[WordInContext](), list[torch.Tensor]()
            states = self.runner.states([row.row for _, row in rows], self.path)
            for (number, row), states_TD in zip(rows, states, strict=True):
                for place, (word, group) in enumerate(zip(row.words, row.groups, strict=True)):
                    if any(map(str.isalnum, word)):
                        words.append(WordInContext(number, row.words, place))
                        vectors.append(states_TD[[*group]].float().mean(0))
            if words:
                vectors_ND = torch.nn.functional.normalize(torch.stack(vectors), dim=-1)
                yield words, vectors_ND.cpu().numpy()

    def find(
        self, word: str, lines: Sequence[LineOfText], most: int
    ) -> Iterator[tuple[WordInContext, np.ndarray]]:
        """Find the first ``most`` occurrences of a word, ignoring case, with their vectors."""
        query = word.lower()
        with_word = (line for line in lines if query in line.text.lower())
        matches = (
            (occurrence, vector_D)
            for words, vectors_ND in self.read(with_word)
            for occurrence, vector_D in zip(words, vectors_ND, strict=True)
            if occurrence.word.lower() == query
        )
        return islice(matches, most)


def static_neighbours(vectors: StaticVectors, word: str, top: int) -> list[tuple[str, float]]:
    """Find the ``top`` words by cosine with the vector of a word; empty if it has no vector."""
    if (number := vectors.index_of(word)) is None:
        return []
    same = [n for n, other in enumerate(vectors.words) if other.lower() == word.lower()]
    (nearest,) = vectors.nearest(vectors.vectors_ND[[number]], [same], top)
    return [(vectors.words[n], cosine) for n, cosine in nearest]


def neighbours_record(
    title: str, neighbours: Mapping[str, Iterable[tuple[str, float]]]
) -> ViewRecord:
    """Neighbours of each query: their texts and cosines, the nearest first."""
    groups = [
        {"query": query, "rows": [{"text": text, "cosine": cosine} for text, cosine in rows]}
        for query, rows in neighbours.items()
    ]
    return ViewRecord.of("neighbours", title=title, groups=groups)
