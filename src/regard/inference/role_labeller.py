"""Semantic roles: the predicates of a sentence and the arguments of each, by labelled tokens.

A row is a sentence in which one predicate is marked (Shi & Lin, 2019, arXiv:1904.05255). The tags
of its words are the best sequence in which every I-X follows B-X or I-X (He et al., 2017, section
2.1), with B-V at the predicate and nowhere else. In a row without a mark, B-V tags the predicates.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import ClassVar, NamedTuple, Self, cast

import numpy as np
import torch
from torch import Tensor

from regard.core.checks import is_whole
from regard.core.errors import BadInput, BadItem, shown
from regard.core.tape import NULL_TAPE, NullTape
from regard.data.readers.fields import field_of, json_object, typed
from regard.inference.component import Result, Row
from regard.inference.predictor import Predictor
from regard.inference.tagger import decode_sequences, text_and_spans
from regard.layers.crf import best_labels
from regard.metrics.entities import OUTSIDE, LabelledSpan
from regard.metrics.entities import spans as spans_of
from regard.metrics.roles import VERB
from regard.models.label_heads import TokenLabelHead
from regard.text.label_sets import LabelSet
from regard.text.templates import WordRow
from regard.text.tokenizers.row_tokenizer import RowTokenizer
from regard.text.words import Sentence, Spans, spaced_spans, word_spans

MARKS = ("segment", "pair")
PREDICATES = ("found", "given")
FORBIDDEN = -1e9  # the score of an illegal transition: below that of every legal sequence
PREDICATE = f"B-{VERB}"
RoleInput = Sentence | tuple[Sentence, Sequence[int]]
"""A text or its words, alone or with the indices of its predicates."""


@dataclass(frozen=True)
class RoleArgument:
    """Words ``start`` to ``end`` (exclusive), their role, and the mean probability of its tags.

    Probabilities are the model's, before decoding.
    """

    label: str
    start: int
    end: int
    text: str
    probability: float


@dataclass(frozen=True)
class PredictedFrame:
    """A predicate, the index of its word, and its arguments; "V" is the predicate itself."""

    predicate: int
    word: str
    arguments: tuple[RoleArgument, ...]

    @property
    def spans(self) -> list[LabelledSpan]:
        """The arguments as spans of words."""
        return [LabelledSpan(each.start, each.end, each.label) for each in self.arguments]

    @property
    def record(self) -> dict[str, object]:
        """The frame for JSON; arguments are [first word, last word, label]."""
        return {
            "index": self.predicate,
            "word": self.word,
            "args": [[each.start, each.end - 1, each.label] for each in self.arguments],
            "probabilities": [each.probability for each in self.arguments],
        }


@dataclass(frozen=True)
class SentenceFrames:
    """The words of a sentence, and the frame of each of its predicates."""

    words: tuple[str, ...]
    frames: tuple[PredictedFrame, ...]

    def brackets(self, frame: PredictedFrame) -> str:
        """The words with the arguments of a frame in brackets: ``[A0 Owls] [V eat] [A1 mice] .``"""
        parts, end = list[str](), 0
        for start, stop, label in sorted(frame.spans):
            parts += [*self.words[end:start], f"[{label} {' '.join(self.words[start:stop])}]"]
            end = stop
        return " ".join([*parts, *self.words[end:]])

    @property
    def line(self) -> str:
        """All frames in brackets, with a tab between them; without frames, the words."""
        return "\t".join(map(self.brackets, self.frames)) or " ".join(self.words)

    @property
    def record(self) -> dict[str, object]:
        """The words and frames as the reader "jsonl" of semantic roles reads them."""
        return {"tokens": [*self.words], "predicates": [frame.record for frame in self.frames]}


class RoleRows(NamedTuple):
    """The words of a sentence, the token ids of each, and its predicates; None: to be found."""

    words: tuple[str, ...]
    ids: list[list[int]]
    predicates: tuple[int, ...] | None


RoleRow = Row[RoleInput, RoleRows]


@dataclass(frozen=True, eq=False)
class RoleLabeller(Predictor[RoleInput, RoleRows, SentenceFrames]):
    """The component "roles" of a model with a token-label head.

    The predicate is marked by a "segment" of its own, or the row is a "pair" of the sentence and
    the predicate. ``predicates`` are "found" by the model where an input does not name them, or
    every input must have them ("given"). Of a sentence of more than ``max_length`` tokens, words
    around a predicate are read, and the others are in no argument.
    """

    name = "roles"
    empty_record: ClassVar = {"tokens": None, "predicates": None}
    record_keys = (("text",), ("tokens",), ("text", "predicates"), ("tokens", "predicates"))
    columns = ("frames",)
    words_key = "tokens"
    labels: LabelSet
    max_length: int = 512
    mark: str = MARKS[0]
    predicates: str = PREDICATES[0]
    find_words: Spans = field(default=word_spans)

    def __post_init__(self) -> None:
        missing = {OUTSIDE, PREDICATE} - {*self.labels.names}
        if missing:
            raise BadInput(f"the labels of the model lack {min(missing)}: it labels no roles")

    def rows(self, inputs: Sequence[RoleInput], keys: Sequence[int]) -> list[RoleRow]:
        numbered = enumerate(inputs, start=1)
        sentences = [self._words_and_predicates(given, number) for number, given in numbered]
        ids = iter(self.tokenizer.pieces([word for words, _ in sentences for word in words]))
        rows = []
        for key, given, (words, predicates) in zip(keys, inputs, sentences, strict=True):
            own = RoleRows(words, [*islice(ids, len(words))], predicates)
            cost = sum(map(len, own.ids)) * max(1, len(predicates or ()))
            rows.append(Row(key, given, own, cost, cut=self._is_long(own.ids)))
        return rows

    def values(self, rows: Sequence[RoleRow], tape: NullTape = NULL_TAPE) -> list[SentenceFrames]:
        sentences = [row.data for row in rows]
        unknown = [number for number, own in enumerate(sentences) if own.predicates is None]
        listed = self._find([sentences[number].ids for number in unknown], tape)
        predicates = dict(zip(unknown, listed, strict=True))
        marked = [
            (number, predicate)
            for number, own in enumerate(sentences)
            for predicate in (predicates[number] if own.predicates is None else own.predicates)
        ]
        frames: list[list[PredictedFrame]] = [[] for _ in rows]
        requests = [(sentences[number].ids, predicate) for number, predicate in marked]
        for (number, predicate), tags in zip(marked, self._tags(requests, tape), strict=True):
            frames[number].append(_frame(sentences[number].words, predicate, tags))
        return [
            SentenceFrames(own.words, tuple(of_own))
            for own, of_own in zip(sentences, frames, strict=True)
        ]

    def find_predicates(self, sentences: Sequence[Sequence[str]]) -> list[list[int]]:
        """The indices of the predicates of each sentence."""
        ids = iter(self.tokenizer.pieces([word for words in sentences for word in words]))
        return self._find([[*islice(ids, len(words))] for words in sentences])

    def _find(
        self, sentences: Sequence[Sequence[Sequence[int]]], tape: NullTape = NULL_TAPE
    ) -> list[list[int]]:
        """Indices of the words that are tagged as predicates in rows without a mark."""
        windows = [
            (number, window)
            for number, ids in enumerate(sentences)
            for window in self.tokenizer.template.windows_of_words(ids, self.max_length)
        ]
        logits = self._logits([window for _, window in windows], tape)
        predicate, predicates = self.labels.names.index(PREDICATE), [list[int]() for _ in sentences]
        for (number, window), logits_LV in zip(windows, logits, strict=True):
            best = logits_LV[window.first_tokens].argmax(dim=1)
            pairs = zip(window.words, best.tolist(), strict=True)
            predicates[number] += [word for word, label in pairs if label == predicate]
        return [sorted(words) for words in predicates]

    def _tags(
        self, requests: Sequence[tuple[Sequence[Sequence[int]], int]], tape: NullTape = NULL_TAPE
    ) -> list[tuple[list[str], list[float]]]:
        """Tag and probability of each word of a sentence, for one of its predicates."""
        windows = [
            marked_row(self.tokenizer, ids, predicate, self.max_length, self.mark)
            for ids, predicate in requests
        ]
        logits = self._logits(windows, tape)
        predicates = [predicate for _, predicate in requests]
        of_words = [
            self._with_verb(logits_LV[window.first_tokens], window.words.index(predicate))
            for logits_LV, window, predicate in zip(logits, windows, predicates, strict=True)
        ]
        table = legal_transitions(self.labels.names)
        best = decode_sequences(of_words, partial(best_labels, table=table), self.limits)
        tagged = []
        for (ids, _), window, logits_LV, labels in zip(
            requests, windows, logits, best, strict=True
        ):
            tags, certain = [OUTSIDE] * len(ids), [1.0] * len(ids)
            shares_NV = torch.softmax(logits_LV[window.first_tokens], dim=-1)
            shares = shares_NV.gather(1, torch.tensor(labels)[:, None])[:, 0].tolist()
            for word, label, probability in zip(window.words, labels, shares, strict=True):
                tags[word], certain[word] = self.labels.names[label], probability
            tagged.append((tags, certain))
        return tagged

    def _logits(self, windows: Sequence[WordRow], tape: NullTape) -> list[Tensor]:
        """Logits (tokens, labels) of each row; there may be no rows."""
        rows = [window.row for window in windows]
        return self.head_logits(TokenLabelHead, rows, tape) if rows else []

    def _with_verb(self, logits_NV: Tensor, at: int) -> Tensor:
        """Logits with which B-V is the tag of word ``at``, and of no other."""
        predicate = self.labels.names.index(PREDICATE)
        allowed_NV = torch.ones_like(logits_NV, dtype=torch.bool)
        allowed_NV[:, predicate] = False
        allowed_NV[at] = ~allowed_NV[at]
        return logits_NV.masked_fill(~allowed_NV, FORBIDDEN)

    def _words_and_predicates(
        self, given: RoleInput, number: int
    ) -> tuple[tuple[str, ...], tuple[int, ...] | None]:
        """The words of input ``number``, and its predicates if it has them."""
        sentence, predicates = split_input(given)
        text, spans = text_and_spans(sentence, number, self.find_words)
        words = tuple(text[start:end] for start, end in spans)
        for place, word in enumerate(words):
            if not word.strip():
                raise BadItem(number, f"word {place} is empty")
        if predicates is None and self.predicates == "given":
            remedy = "this model was not trained to find them (roles.predicates)"
            raise BadItem(number, f"has no predicates: name their words, counted from 0; {remedy}")
        for place in predicates or ():
            if not is_whole(place) or not 0 <= place < len(words):
                last = f"the words are 0 to {len(words) - 1}" if words else "there are no words"
                raise BadItem(number, f"predicate {shown(place)}: {last}")
        return words, None if predicates is None else tuple(dict.fromkeys(map(int, predicates)))

    def _is_long(self, ids: Sequence[Sequence[int]]) -> bool:
        return sum(map(len, ids)) + self.tokenizer.template.specials(1) > self.max_length

    def row_texts(self, given: RoleInput) -> Sequence[tuple[str, ...]]:
        sentence, _ = split_input(given)
        return [(sentence if isinstance(sentence, str) else " ".join(sentence),)]

    def parse(self, line: str, where: str) -> RoleInput:
        if line.lstrip().startswith("{"):
            return self.parse_record(json_object(line, where), where)
        text, tab, numbers = line.partition("\t")
        return (text, _numbers(numbers, where)) if tab else text

    def parse_record(self, record: Mapping[str, object], where: str) -> RoleInput:
        key = next((key for key in ("tokens", "words") if key in record), "text")
        sentence = record.get(key)
        if not isinstance(sentence, str | list) or not all(isinstance(w, str) for w in sentence):
            field_of(record, key, str, where)
            raise BadInput(f"{where}: {key} is neither a text nor a list of words")
        given = record.get("predicates")
        if given is None:
            return sentence
        if not isinstance(given, list):
            return sentence, _numbers(str(given), where)
        return sentence, [
            field_of(each, "index", int, where)
            if isinstance(each, dict)
            else typed(each, int, "a predicate", where)
            for each in given
        ]

    def cells(self, result: Result[SentenceFrames]) -> list[dict[str, object]]:
        return [{"frames": result.value.line}]

    def with_options(self, *, pretokenised: bool = False, entities: bool = False) -> Self:
        if entities:
            raise BadInput("entities cannot be printed: this model labels semantic roles")
        return replace(self, find_words=spaced_spans) if pretokenised else self


def split_input(given: RoleInput) -> tuple[Sentence, Sequence[int] | None]:
    """The sentence of an input, and the indices of its predicates if it has them."""
    if isinstance(given, tuple | list) and len(given) == 2:
        sentence, second = given
        if isinstance(second, Iterable) and not isinstance(second, str):
            return sentence, cast(list[int], [*second])
    return cast(Sentence, given), None


def marked_row(
    tokenizer: RowTokenizer, words: Sequence[Sequence[int]], predicate: int, longest: int, mark: str
) -> WordRow:
    """Row of a sentence, each word as its token ids, in which a predicate is marked."""
    return tokenizer.template.row_around(words, predicate, longest, as_pair=mark == "pair")


def legal_transitions(tags: Sequence[str]) -> Tensor:
    """Table of transitions of a CRF: 0, or ``FORBIDDEN`` where I-X follows neither B-X nor I-X."""
    before = [{tag, f"B-{tag[2:]}"} if tag.startswith("I-") else None for tag in tags]
    legal = [[allowed is None or tag in allowed for allowed in before] for tag in (*tags, "")]
    table = torch.where(torch.tensor(legal), 0.0, FORBIDDEN)
    return torch.cat([table, torch.zeros(1, len(tags))]).double()


def _frame(
    words: Sequence[str], predicate: int, tagged: tuple[list[str], list[float]]
) -> PredictedFrame:
    tags, certain = tagged
    arguments = tuple(
        RoleArgument(
            label, start, end, " ".join(words[start:end]), float(np.mean(certain[start:end]))
        )
        for start, end, label in spans_of(tags)
    )
    return PredictedFrame(predicate, words[predicate], arguments)


def _numbers(text: str, where: str) -> list[int]:
    """Indices of words, separated by spaces or commas."""
    parts = text.replace(",", " ").split()
    if not all(part.isdecimal() for part in parts):
        raise BadInput(f"{where}: predicates are the numbers of words from 0, not {shown(text)}")
    return [*map(int, parts)]
