"""Answers that stand in a text: the best spans, and whether there is one at all.

A span scores the sum of the logits of its first and its last token, the lack of an answer those of
the summary token of a row (Devlin et al., 2018, sections 4.2 and 4.3).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import nlargest

import torch
from torch import Tensor, nn

from regard.tasks.inputs import check_pairs
from regard.tasks.rows import Runner
from regard.text.encoder_tokenizer import EncoderTokenizer
from regard.text.templates import ContextWindow

CONTEXT, OVERLAP, QUESTION = 384, 128, 64  # tokens of a row, shared by two rows, of a question


@dataclass(frozen=True)
class Answer:
    """Characters ``start`` to ``end`` (not included) of the context, and how good they are.

    The probability is that among all answers given for the question.
    """

    text: str
    start: int
    end: int
    score: float
    probability: float


@dataclass(frozen=True)
class Answers:
    """The best answers to a question, best first, and whether to give any.

    ``no_answer`` is by how much "there is none" scores above the best; its probability is 0 where
    every question is answered.
    """

    best: tuple[Answer, ...]
    no_answer: float
    no_answer_probability: float
    threshold: float | None

    @property
    def answer(self) -> Answer | None:
        """The one to give, if any."""
        none = self.threshold is not None and self.no_answer > self.threshold
        return None if none or not self.best else self.best[0]

    @property
    def text(self) -> str:
        """Of the answer to give; empty if there is none."""
        return "" if self.answer is None else self.answer.text


@dataclass(frozen=True, eq=False)
class Answerer(Runner):
    """An encoder that says of each token how well an answer begins and ends there.

    A context that is too long is read in several rows of ``longest`` tokens, of which two share
    ``stride``; a question has at most ``question`` tokens. Of each row, the ``best`` beginnings are
    put together with the ``best`` ends, to answers of at most ``longest_answer`` tokens. A question
    has no answer if ``no_answer`` is above the ``threshold``; without one every question has.
    """

    model: nn.Module
    text: EncoderTokenizer
    rows: int = 256
    longest: int = CONTEXT
    stride: int = OVERLAP
    question: int = QUESTION
    best: int = 20
    longest_answer: int = 30
    threshold: float | None = None

    def predict(self, asked: Sequence[tuple[str, str]]) -> list[Answers]:
        """The answers to each (question, context)."""
        asked = check_pairs(asked, "of texts (question, context)", texts=True)
        windows = [self.windows(question, context) for question, context in asked]
        said = iter(self.of_tokens([one.row for each in windows for one in each], "span"))
        return [
            self._answers(context, [(window, next(said)) for window in each])
            for (_, context), each in zip(asked, windows, strict=True)
        ]

    def windows(self, question: str, context: str) -> list[ContextWindow]:
        """The rows of a question, each with a part of its context."""
        shared, asked = min(self.stride, self.longest // 3), min(self.question, self.longest // 4)
        return self.text.windows(question, context, self.longest, shared, asked)

    def _answers(self, context: str, windows: list[tuple[ContextWindow, Tensor]]) -> Answers:
        at = self.text.template.summary_position
        none = min(float(said_LV[at(len(said_LV))].sum()) for _, said_LV in windows)
        scored = [one for window, said_LV in windows for one in self._spans(window, said_LV)]
        once: dict[tuple[int, int], float] = {}  # neighbouring windows see the same spans
        for score, start, end in scored:
            once[start, end] = max(score, once.get((start, end), score))
        found = nlargest(self.best, ((score, *place) for place, score in once.items()))
        top = found[0][0] if found else 0.0
        with_none = self.threshold is not None
        if with_none and len(found) == self.best and none > found[-1][0]:
            found.pop()  # "there is none" is one of the best
        logits = torch.tensor([score for score, _, _ in found] + [none] * with_none)
        probable = torch.softmax(logits.double(), dim=0).tolist()
        best = tuple(
            Answer(context[start:end], start, end, score, probability)
            for (score, start, end), probability in zip(found, probable, strict=False)
        )
        return Answers(best, none - top, probable[-1] if with_none else 0.0, self.threshold)

    def _spans(self, window: ContextWindow, logits_LV: Tensor) -> Iterator[tuple[float, int, int]]:
        """(score, start, end) of what may be an answer in one row, in characters of the context."""
        size = min(self.best, len(logits_LV))
        (begins, starts), (closes, ends) = (logits_LV[:, i].topk(size) for i in (0, 1))
        inside = torch.tensor([span is not None for span in window.spans])
        lengths = ends[None, :] - starts[:, None] + 1
        allowed = inside[starts][:, None] & inside[ends][None, :]
        allowed &= (lengths >= 1) & (lengths <= self.longest_answer)
        scores = (begins[:, None] + closes[None, :]).masked_fill(~allowed, -torch.inf)
        found = scores.flatten().topk(min(self.best, int(allowed.sum())))
        firsts, lasts = starts[found.indices // size], ends[found.indices % size]
        places = zip(found.values.tolist(), firsts.tolist(), lasts.tolist(), strict=True)
        for score, first, last in places:
            begun, ended = window.spans[first], window.spans[last]
            assert begun is not None and ended is not None
            yield score, begun.start, ended.end
