"""Extractive question answering: the best spans of a context, or no answer.

The score of a span is the sum of the logits of its first and last token. The score of "no answer"
is the sum of both logits of the summary token: the first of a row, or the last for XLNet (Devlin et
al., 2018, sections 4.2 and 4.3).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from heapq import nlargest
from typing import ClassVar, cast

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.core.config import Config
from regard.core.errors import BadInput
from regard.core.tape import NULL_TAPE, NullTape
from regard.data.readers.examples import QuestionExample
from regard.data.readers.fields import field_of, json_object
from regard.inference.component import Result, Row
from regard.inference.inputs import check_pairs
from regard.inference.predictor import Predictor
from regard.inference.row_batches import check_segments
from regard.metrics.answers import answer_scores, best_threshold
from regard.metrics.translation import MetricScore
from regard.models.heads import AnyHead
from regard.models.label_heads import SpanHead
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.objectives.label_losses import SpanExtraction
from regard.tasks.encoder_task import Encoded, EncoderTask
from regard.tasks.task import TaskScores
from regard.text.templates import ContextWindow
from regard.text.text_tables import EncoderTextConfig
from regard.text.tokenizers.row_tokenizer import RowTokenizer
from regard.text.vocabulary import token_count

Question = tuple[str, str]  # with its context
QuestionRow = Row[Question, list[ContextWindow]]
QUESTION_KEYS = ("question", "context")  # of a JSON object
CONTEXT, OVERLAP, QUESTION, LONGEST = 384, 128, 64, 30  # tokens: row, overlap, question, answer


class AnswersConfig(Config):
    """Overlap of windows over a context, limits of lengths, and the threshold of "no answer".

    A question has no answer if "no answer" scores more than ``threshold`` above the best span;
    without a threshold, every question is answered.
    """

    stride: int = Field(OVERLAP, ge=0)
    """Tokens that two windows over a long context share."""
    question: int = Field(QUESTION, ge=1)
    """The most tokens of a question; longer ones are cut."""
    longest: int = Field(LONGEST, ge=1)
    """The most tokens of an answer."""
    threshold: float | None = None
    """The score of "no answer" above the best answer from which on a question has no answer."""


@dataclass(frozen=True)
class AnswerSpan:
    """Characters ``start`` to ``end`` (exclusive) of the context, and their score.

    The probability is relative to all answers given for the question.
    """

    text: str
    start: int
    end: int
    score: float
    probability: float


@dataclass(frozen=True)
class AnswerPrediction:
    """The best answers to a question, best first, and whether one of them is given.

    ``no_answer`` is the score of "no answer" minus the score of the best span; its probability is 0
    if every question is answered.
    """

    best: tuple[AnswerSpan, ...]
    no_answer: float
    no_answer_probability: float
    threshold: float | None

    @property
    def answer(self) -> AnswerSpan | None:
        """The answer that is given, or None."""
        none = self.threshold is not None and self.no_answer > self.threshold
        return None if none or not self.best else self.best[0]

    @property
    def text(self) -> str:
        """Text of the answer; empty if there is none."""
        return "" if self.answer is None else self.answer.text

    @property
    def line(self) -> str:
        """Answer and probability; the answer is empty if there is none."""
        if self.answer is None:
            return f"\t{self.no_answer_probability:.4f}"
        return f"{' '.join(self.answer.text.split())}\t{self.answer.probability:.4f}"

    @property
    def summary(self) -> str:
        """Answer and probability, for a title."""
        answer, probability = self.line.split("\t")
        return f"{answer or 'no answer'}  {float(probability):.3f}"

    @property
    def record(self) -> dict[str, object]:
        """The prediction for JSON, with all answers."""
        return {
            "answer": None if self.answer is None else asdict(self.answer),
            "none": {"no_answer": self.no_answer, "probability": self.no_answer_probability},
            "best": [asdict(answer) for answer in self.best],
        }


@dataclass(frozen=True, eq=False)
class Answerer(Predictor[Question, list[ContextWindow], AnswerPrediction]):
    """Predictor of a model with a span head.

    A context that is too long is read in several rows of ``max_length`` tokens, of which neighbours
    share ``stride``; a question has at most ``question`` tokens. In each row, the ``best`` first
    tokens are combined with the ``best`` last tokens, to answers of at most ``longest_answer``
    tokens. A question has no answer if ``no_answer`` is above the ``threshold``; without a
    threshold every question is answered.
    """

    name = "answer"
    empty_record: ClassVar = {"answer": None, "none": None, "best": None}
    record_keys = (QUESTION_KEYS,)
    columns = ("answer", "probability")
    max_length: int = CONTEXT
    stride: int = OVERLAP
    question: int = QUESTION
    best: int = 20
    longest_answer: int = LONGEST
    threshold: float | None = None

    def rows(self, inputs: Sequence[Question], keys: Sequence[int]) -> list[QuestionRow]:
        pairs = check_pairs(inputs, "of texts (question, context)", texts=True)
        windows = [self.windows(question, context) for question, context in pairs]
        check_segments(self.module, [own[0].row for own in windows])
        return [
            self.prepared(key, given, own, sum(len(window.row.tokens) for window in own))
            for key, given, own in zip(keys, pairs, windows, strict=True)
        ]

    def values(
        self, rows: Sequence[QuestionRow], tape: NullTape = NULL_TAPE
    ) -> list[AnswerPrediction]:
        windows = [window.row for row in rows for window in row.data]
        logits = iter(self.head_logits(SpanHead, windows, tape))
        return [
            self._answers(row.given[1], [(window, next(logits)) for window in row.data])
            for row in rows
        ]

    @property
    def longest_question(self) -> int:
        """The maximum number of tokens of a question."""
        return min(self.question, self.max_length // 4)

    def windows(self, question: str, context: str) -> list[ContextWindow]:
        """The rows of a question, each with a part of its context."""
        limit = self.max_length
        overlap = min(self.stride, limit // 3)
        return self.tokenizer.windows(question, context, limit, overlap, self.longest_question)

    def is_cut(self, value: Question, cost: int) -> bool:
        most = self.longest_question
        return token_count(value[:1], self.tokenizer.words, 0, most) > most

    @property
    def cut_reason(self) -> str:
        return f"a question of more than {self.longest_question} tokens"

    def parse(self, line: str, where: str) -> tuple[str, str]:
        if line.lstrip().startswith("{"):
            return self.parse_record(json_object(line, where), where)
        question, tab, context = line.partition("\t")
        if not tab:
            raise BadInput(f"{where}: no tab between a question and its context")
        return question, context

    def cells(self, result: Result[AnswerPrediction]) -> list[dict[str, object]]:
        answer, none = result.value.answer, result.value.no_answer_probability
        probability = none if answer is None else answer.probability
        return [{"answer": result.value.text, "probability": probability}]

    def parse_record(self, record: Mapping[str, object], where: str) -> Question:
        question, context = (field_of(record, key, str, where) for key in QUESTION_KEYS)
        return question, context

    def _answers(
        self, context: str, windows: list[tuple[ContextWindow, Tensor]]
    ) -> AnswerPrediction:
        none = min(float(logits_LV[window.summary].sum()) for window, logits_LV in windows)
        scored = [span for window, logits_LV in windows for span in self._spans(window, logits_LV)]
        once: dict[tuple[int, int], float] = {}  # neighbouring windows see the same spans
        for score, start, end in scored:
            once[start, end] = max(score, once.get((start, end), score))
        spans = nlargest(self.best, ((score, *place) for place, score in once.items()))
        top = spans[0][0] if spans else 0.0
        with_none = self.threshold is not None
        if with_none and len(spans) == self.best and none > spans[-1][0]:
            spans.pop()  # "there is none" is one of the best
        logits = torch.tensor([score for score, _, _ in spans] + [none] * with_none)
        probable = torch.softmax(logits.double(), dim=0).tolist()
        best = tuple(
            AnswerSpan(context[start:end], start, end, score, probability)
            for (score, start, end), probability in zip(spans, probable, strict=False)
        )
        return AnswerPrediction(
            best, none - top, probable[-1] if with_none else 0.0, self.threshold
        )

    def _spans(self, window: ContextWindow, logits_LV: Tensor) -> Iterator[tuple[float, int, int]]:
        """(score, start, end) of the best spans in one row, in characters of the context."""
        size = min(self.best, len(logits_LV))
        (begins, starts), (closes, ends) = (logits_LV[:, i].topk(size) for i in (0, 1))
        inside = torch.tensor([span is not None for span in window.spans])
        lengths = ends[None, :] - starts[:, None] + 1
        allowed = inside[starts][:, None] & inside[ends][None, :]
        allowed &= (lengths >= 1) & (lengths <= self.longest_answer)
        scores = (begins[:, None] + closes[None, :]).masked_fill(~allowed, -torch.inf)
        top = scores.flatten().topk(min(self.best, int(allowed.sum())))
        firsts, lasts = starts[top.indices // size], ends[top.indices % size]
        places = zip(top.values.tolist(), firsts.tolist(), lasts.tolist(), strict=True)
        for score, first, last in places:
            begun, ended = window.spans[first], window.spans[last]
            assert begun is not None and ended is not None
            yield score, begun.start, ended.end


class QuestionAnswering(EncoderTask[QuestionExample, RowTokenizer, Answerer, None]):
    """The task "answer": extractive question answering."""

    name = "answer"
    head, predictor_class, default_length = SpanHead, Answerer, CONTEXT
    saved_settings = ("stride", "question", "longest_answer", "threshold")
    own_tables: ClassVar = {"text": EncoderTextConfig, "answers": AnswersConfig}
    dev_metrics = test_metrics = ("exact match", "F1")

    def heads(self, facts: TrunkWithHeads) -> tuple[AnyHead, ...]:
        return (SpanHead(),)

    def texts(self, example: QuestionExample) -> tuple[str, ...]:
        return example.question, example.context

    def notes(self) -> dict[str, object]:
        answers = self.tables[AnswersConfig]
        settings = answers.stride, answers.question, answers.longest, answers.threshold
        return super().notes() | dict(zip(self.saved_settings, settings, strict=True))

    def encode(
        self, reading: RowTokenizer, labels: None, examples: Sequence[QuestionExample]
    ) -> list[Encoded]:
        longest = self.row_length(reading)
        predictor = self.predictor(nn.Identity(), reading, None, longest, self.notes())
        reader = cast(Answerer, predictor)
        return [
            (window.row, _target(window, example))
            for example in examples
            for window in reader.windows(example.question, example.context)
        ]

    def make_objective(self, labels: None, encoded: Sequence[Encoded]) -> SpanExtraction:
        return SpanExtraction()

    def score(
        self, predictor: Answerer, examples: Sequence[QuestionExample], with_interval: bool = False
    ) -> TaskScores:
        results = predictor.predict([(example.question, example.context) for example in examples])
        golds = [[answer.text for answer in example.answers] for example in examples]
        scores = answer_scores(golds, [result.text for result in results], with_interval)
        if all(golds):
            return TaskScores(scores)
        best = [result.best[0].text if result.best else "" for result in results]
        thresholds = best_threshold(golds, best, [result.no_answer for result in results])
        for name, example in thresholds.items():
            signature = f"questions:{len(golds)}|threshold:{example.value:.4f}"
            scores.append(MetricScore(f"best {name}", example.score, signature))
        return TaskScores(scores)


def _target(window: ContextWindow, example: QuestionExample) -> tuple[int, int]:
    """First and last token of the answer, or the summary token twice if the window lacks it."""
    nowhere = (window.summary, window.summary)
    if not example.answers:
        if example.answerable:
            raise BadInput(f"{example.where}: its answers are hidden (test set without answers)")
        return nowhere
    start = example.answers[0].start
    end = start + len(example.answers[0].text)
    first, last = _covering(window, start), _covering(window, end - 1)
    return nowhere if first is None or last is None else (first, last)


def _covering(window: ContextWindow, character: int) -> int | None:
    """Index of the token that covers a character of the context; None if there is none."""
    covering = (
        token
        for token, span in enumerate(window.spans)
        if span is not None and span.start <= character < span.end
    )
    return next(covering, None)
