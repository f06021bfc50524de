"""The four tasks of an encoder: what they learn from an example, and how they are judged."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np
from torch import nn

from regard.data.readers import (
    GLUE_TASKS,
    ChoiceExample,
    LabelledExample,
    QuestionExample,
    TaggedExample,
)
from regard.ground.batch import IGNORED
from regard.ground.errors import BadInput
from regard.metrics.answers import answer_scores, best_threshold
from regard.metrics.classification import class_table, classification_scores, several_scores
from regard.metrics.entities import entity_scores, entity_table, to_scheme
from regard.metrics.precision_recall import LabelScore
from regard.metrics.regression import regression_scores
from regard.metrics.translation import MetricScore
from regard.models.facts import ChoiceHead, LabelHead, SpanHead, TokenLabelHead
from regard.objectives import labels as objectives
from regard.objectives import token_labels
from regard.objectives.choices import MultipleChoice
from regard.objectives.spans import SpanExtraction
from regard.tasks.answer import Answerer
from regard.tasks.choose import Chooser
from regard.tasks.classify import EncoderClassifier
from regard.tasks.rows import rows_of
from regard.tasks.tag import Tagger
from regard.text.encoder_tokenizer import EncoderTokenizer
from regard.text.labels import (
    LABEL_SETS,
    LabelSet,
    MultiLabelSet,
    RegressionSet,
    SingleLabelSet,
)
from regard.text.templates import ContextWindow, RowBuilder
from regard.training.class_weights import class_weights
from regard.training.recipe import Recipe

Coded = tuple[Any, Any]  # rows and targets


class Judgement(NamedTuple):
    """How well a model does a task, and how well it finds each label, where there are some."""

    scores: list[MetricScore]
    of_labels: Sequence[LabelScore] = ()


@dataclass(frozen=True)
class Kind:
    """A task as a recipe describes it."""

    recipe: Recipe

    @property
    def longest(self) -> int:
        """The most tokens of a row."""
        return self.recipe.batches.longest

    def head(self, dropout: float) -> Any:
        """Its head, of one output until labels are known."""

    def labels(self, examples: Sequence[Any]) -> LabelSet | None:
        """What may be said, if it has names."""

    def texts(self, example: Any) -> Any:
        """The texts of an example."""

    def coded(self, text: EncoderTokenizer, labels: Any, examples: Sequence[Any]) -> list[Coded]:
        """The same as rows and goals."""
        raise NotImplementedError

    def objective(self, labels: Any, coded: Sequence[Coded]) -> Any:
        """What is learned."""

    def runner(self, model: nn.Module, text: EncoderTokenizer, labels: Any = None) -> Any:
        """A model that is asked as the recipe says."""
        raise NotImplementedError

    def judged(
        self, runner: Any, examples: Sequence[Any], with_interval: bool = False
    ) -> Judgement:
        """How well a model does it."""
        raise NotImplementedError


class Classify(Kind):
    """One text or two, and a label, several, or a number."""

    def head(self, dropout: float) -> LabelHead:
        """Over the pooled state."""
        return LabelHead(1, dropout)

    def labels(self, examples: Sequence[LabelledExample]) -> LabelSet:
        """Those that occur, in the order of a benchmark where it has one."""
        labels, positive = self._labels(examples), self.recipe.labels.positive
        if positive is not None and positive not in labels.names:
            there = ", ".join(map(repr, labels.names))
            raise BadInput(f"labels.positive: no label is called {positive!r}; there are {there}")
        return labels

    def _labels(self, examples: Sequence[LabelledExample]) -> LabelSet:
        asked = self.recipe.labels
        written, kind = asked.names or {}, LABEL_SETS[asked.kind]
        known = {name.lower(): task for name, task in GLUE_TASKS.items()}
        task = known.get(str(self.recipe.data.train.reader).lower())
        if task is not None and (fixed := kind.of_benchmark(task.labels, written)):
            return fixed
        return kind.of(chain.from_iterable(map(_shown, examples)), written)

    def texts(self, example: LabelledExample) -> tuple[str, ...]:
        """One or two."""
        return example.texts

    def coded(
        self, text: EncoderTokenizer, labels: LabelSet, examples: Sequence[LabelledExample]
    ) -> list[Coded]:
        """A row of each, and its label."""
        rows = rows_of(text, [_asked(one) for one in examples], self.longest)
        return [
            (row, labels.encode(_shown(one), one.where))
            for row, one in zip(rows, examples, strict=True)
        ]

    def objective(self, labels: LabelSet, coded: Sequence[Coded]) -> Any:
        """Cross-entropy, over all labels or over each alone, or squared distance."""
        asked = self.recipe.labels.weights
        weights = class_weights(labels, asked, (goal[0] for _, goal in coded))
        make = objectives.OBJECTIVES[labels.problem_type]
        return make(len(labels), self.recipe.train.smoothing, weights)

    def runner(
        self, model: nn.Module, text: EncoderTokenizer, labels: Any = None
    ) -> EncoderClassifier:
        """A model that labels texts."""
        return EncoderClassifier(model, text, labels, longest=self.longest)

    def judged(
        self,
        runner: EncoderClassifier,
        examples: Sequence[LabelledExample],
        with_interval: bool = False,
    ) -> Judgement:
        """As the labels are: accuracy and its like, F1 over all of them, or correlation."""
        found = runner.predict([_asked(one) for one in examples])
        labels, positive = runner.labels, self.recipe.labels.positive
        golds = [labels.gold(_shown(one), one.where) for one in examples]
        said = [one.answer for one in found]
        return JUDGED[labels.problem_type](golds, said, with_interval, positive)


def _single(golds: Any, said: Any, with_interval: bool, positive: str | None) -> Judgement:
    scores = classification_scores(golds, said, with_interval, positive)
    return Judgement(scores, class_table(golds, said))


def _several(golds: Any, said: Any, with_interval: bool, positive: str | None) -> Judgement:
    return Judgement(several_scores(golds, said, with_interval))


def _numbers(golds: Any, said: Any, with_interval: bool, positive: str | None) -> Judgement:
    return Judgement(regression_scores(golds, said, with_interval))


JUDGED = {
    SingleLabelSet.problem_type: _single,
    MultiLabelSet.problem_type: _several,
    RegressionSet.problem_type: _numbers,
}


class Tag(Kind):
    """The words of a sentence, and a tag or a number for each."""

    def head(self, dropout: float) -> TokenLabelHead:
        """Over the state of each token."""
        return TokenLabelHead(1, dropout)

    def labels(self, examples: Sequence[TaggedExample]) -> LabelSet:
        """The tags that occur, as their scheme writes them."""
        tags = chain.from_iterable(self._tags(one) for one in examples)
        return LABEL_SETS[self.recipe.labels.kind].of(tags, self.recipe.labels.names or {})

    def texts(self, example: TaggedExample) -> tuple[str, ...]:
        """Its words."""
        return (" ".join(example.words),)

    def _tags(self, example: TaggedExample) -> Sequence[str]:
        scheme = self.recipe.labels.scheme
        try:
            return example.tags if scheme is None else to_scheme(example.tags, scheme)
        except BadInput as error:
            raise BadInput(f"{example.where}: {error}") from None

    def coded(
        self, text: EncoderTokenizer, labels: LabelSet, examples: Sequence[TaggedExample]
    ) -> list[Coded]:
        """A row of each sentence, or several; goals stand at the first pieces of words."""
        words = iter(text.pieces([w for one in examples for w in one.words]))
        found: list[Coded] = []
        for one in examples:
            goals = np.array([labels.encode((tag,), one.where)[0] for tag in self._tags(one)])
            for row, firsts in text.template.windows_of_words(
                [*islice(words, len(one.words))], self.longest
            ):
                at, of_tokens = np.array(firsts), labels.no_targets(len(row.tokens))
                of_tokens[at[at >= 0]] = goals[at >= 0]
                found.append((row, of_tokens))
        return found

    def objective(self, labels: LabelSet, coded: Sequence[Coded]) -> Any:
        """Cross-entropy over tags, or squared distance."""
        every = (goal for _, goals in coded for goal in goals if goal != IGNORED)
        weights = class_weights(labels, self.recipe.labels.weights, every)
        return token_labels.OBJECTIVES[labels.problem_type](self.recipe.train.smoothing, weights)

    def runner(self, model: nn.Module, text: EncoderTokenizer, labels: Any = None) -> Tagger:
        """A model that tags words."""
        return Tagger(model, text, labels, longest=self.longest)

    def judged(
        self, runner: Tagger, examples: Sequence[TaggedExample], with_interval: bool = False
    ) -> Judgement:
        """F1 of entities where tags mean some, else what is right of all words."""
        found = runner.predict([one.words for one in examples])
        labels = runner.labels
        golds = [[labels.gold((tag,), one.where) for tag in self._tags(one)] for one in examples]
        if runner.finds_entities:
            of_sentences = [one.tags for one in found]
            scores = entity_scores(golds, of_sentences, with_interval)
            return Judgement(scores, entity_table(golds, of_sentences))
        said = [word.answer for one in found for word in one.words]
        return JUDGED[labels.problem_type]([*chain(*golds)], said, with_interval, None)


class Answer(Kind):
    """A question, and where its answer stands in a text."""

    def head(self, dropout: float) -> SpanHead:
        """Over the state of each token, without dropout, as others have it."""
        return SpanHead()

    def texts(self, example: QuestionExample) -> tuple[str, ...]:
        """Both."""
        return example.question, example.context

    def windows(self, text: EncoderTokenizer, example: QuestionExample) -> list[ContextWindow]:
        """The rows of a question."""
        return self.runner(nn.Identity(), text).windows(example.question, example.context)

    def runner(self, model: nn.Module, text: EncoderTokenizer, labels: Any = None) -> Answerer:
        """A model that answers."""
        return Answerer(model, text, longest=self.longest, **self.recipe.answers.settings)

    def coded(
        self, text: EncoderTokenizer, labels: None, examples: Sequence[QuestionExample]
    ) -> list[Coded]:
        """Each part of the context, and where the first answer begins and ends in it, if at all."""
        return [
            (window.row, _ends(window, example, text.template))
            for example in examples
            for window in self.windows(text, example)
        ]

    def objective(self, labels: None, coded: Sequence[Coded]) -> Any:
        """Two softmaxes over the tokens of a row."""
        return SpanExtraction()

    def judged(
        self, runner: Answerer, examples: Sequence[QuestionExample], with_interval: bool = False
    ) -> Judgement:
        """SQuAD's exact match and F1; where some have no answer, also by the best threshold."""
        found = runner.predict([(one.question, one.context) for one in examples])
        golds = [[answer.text for answer in one.answers] for one in examples]
        scores = answer_scores(golds, [one.text for one in found], with_interval)
        if all(golds):
            return Judgement(scores)
        best = [one.best[0].text if one.best else "" for one in found]
        thresholds = best_threshold(golds, best, [one.no_answer for one in found])
        scores += [
            MetricScore(
                f"best {name}", one.score, f"questions:{len(golds)}|threshold:{one.value:.4f}"
            )
            for name, one in thresholds.items()
        ]
        return Judgement(scores)


class Choose(Kind):
    """Pairs of texts, of which one is right."""

    def head(self, dropout: float) -> ChoiceHead:
        """Over the pooled state."""
        return ChoiceHead(dropout=dropout)

    def texts(self, example: ChoiceExample) -> tuple[str, ...]:
        """All of them."""
        return tuple(chain.from_iterable(example.choices))

    def coded(
        self, text: EncoderTokenizer, labels: None, examples: Sequence[ChoiceExample]
    ) -> list[Coded]:
        """A row of each pair, and which one it is."""
        rows = iter(rows_of(text, [*chain(*(one.choices for one in examples))], self.longest))
        return [([*islice(rows, len(one.choices))], _right(one)) for one in examples]

    def objective(self, labels: None, coded: Sequence[Coded]) -> Any:
        """A softmax over the choices, of which all questions have equally many."""
        counts = Counter(len(rows) for rows, _ in coded)
        if len(counts) > 1:
            raise BadInput(f"questions have {', '.join(map(str, sorted(counts)))} choices: not one")
        return MultipleChoice(next(iter(counts)))

    def runner(self, model: nn.Module, text: EncoderTokenizer, labels: Any = None) -> Chooser:
        """A model that chooses."""
        return Chooser(model, text, longest=self.longest)

    def judged(
        self, runner: Chooser, examples: Sequence[ChoiceExample], with_interval: bool = False
    ) -> Judgement:
        """How often the right one is chosen."""
        found = runner.of_pairs([one.choices for one in examples])
        golds = [str(_right(one)) for one in examples]
        said = [str(one.index) for one in found]
        return Judgement(classification_scores(golds, said, with_interval)[:1])


KINDS: dict[str, Callable[[Recipe], Kind]] = {
    "classify": Classify,
    "tag": Tag,
    "answer": Answer,
    "choose": Choose,
}


def _shown(example: LabelledExample) -> tuple[str, ...]:
    if example.labels is None:
        raise BadInput(f"{example.where}: its label is hidden")
    return example.labels


def _asked(example: LabelledExample) -> Any:
    return example.texts[0] if len(example.texts) == 1 else example.texts


def _right(example: ChoiceExample) -> int:
    if example.label is None:
        raise BadInput(f"{example.where}: which is right is hidden")
    return example.label


def _ends(window: ContextWindow, example: QuestionExample, template: RowBuilder) -> tuple[int, int]:
    """The first and last token of the answer; twice the summary token if it is not all here."""
    none = template.summary_position(len(window.row.tokens))
    if not example.answers:
        if example.answerable:
            raise BadInput(f"{example.where}: its answers are hidden")
        return none, none
    start = example.answers[0].start
    end = start + len(example.answers[0].text)
    first, last = _holding(window, start), _holding(window, end - 1)
    return (none, none) if first is None or last is None else (first, last)


def _holding(window: ContextWindow, place: int) -> int | None:
    """The token of the context that covers a character, if one does."""
    covering = (
        at
        for at, span in enumerate(window.spans)
        if span is not None and span.start <= place < span.end
    )
    return next(covering, None)
