"""Scores of methods on compiled programs: which heads and words of a known circuit each names.

Methods that name heads explain one number: the logit of the program's output at a position, minus
the logit of the output for other tokens. Attributions to words explain the first of the two logits.
A method gives every head of a model, or every word of an input, a value. It names those whose
absolute value is at least ``NAMED`` of the largest. Precision and recall compare them with the
heads of the circuit, or with the words that the circuit reads on that input.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from circuits.compiler import Program
from regard.inference.model_runner import ModelRunner
from regard.inside.ablation import head_edits
from regard.inside.attribution.methods import methods
from regard.inside.attribution.target_function import TargetFunction
from regard.inside.heads.importance import head_importance
from regard.inside.heads.report_heads import report_heads
from regard.inside.stream.contributions import contributions
from regard.inside.stream.patching import HEADS, TwoRuns, patch
from regard.metrics.classification import LabelScore, label_score
from regard.models.trunk_with_heads import Outputs
from regard.text.segmentation import LabelledRows

NAMED = 0.1  # share of the largest value from which a head or a word is named
ROUNDING = 1e-5  # a method whose values are all smaller names nothing
UNREAD = "sink"  # role of heads whose outputs are thought not to matter


class Question(NamedTuple):
    """An output of a program to explain: tokens after ``START``, and its position in the row.

    ``others`` are as many tokens with another output there.
    """

    tokens: Sequence[str]
    others: Sequence[str]
    position: int


def draw_questions(program: Program, count: int, seed: int = 0) -> list[Question]:
    """Questions drawn at random."""
    rng = np.random.default_rng(seed)
    questions: list[Question] = []
    while len(questions) < count:
        tokens, others = program.draw(rng), program.draw(rng)
        if len(tokens) != len(others):
            continue
        outputs = zip(program.run(tokens), program.run(others), strict=True)
        positions = [at for at, (one, other) in enumerate(outputs, 1) if one != other]
        if positions:
            questions.append(Question(tokens, others, int(rng.choice(positions))))
    return questions


class StudiedProgram(NamedTuple):
    """Model of a program, and questions about it that methods answer."""

    program: Program
    model: ModelRunner
    questions: Sequence[Question]

    @classmethod
    def build(cls, program: Program, questions: int, seed: int = 0) -> "StudiedProgram":
        """Build the model; ``seed`` draws its decoys and the questions."""
        return cls(program, program.inspected(seed), draw_questions(program, questions, seed))

    @property
    def rows(self) -> list[LabelledRows]:
        """Rows of the tokens of all questions."""
        return [self.program.read(self.model, each.tokens) for each in self.questions]

    def target(self, question: Question) -> dict[str, int]:
        """Logit to explain: of the output, minus the logit of the output for the other tokens."""
        if self.program.predicts_numbers:
            return {"target": 0, "token": question.position}
        pair = (self.program.run(tokens) for tokens in (question.tokens, question.others))
        words = (outputs[question.position - 1] for outputs in pair)
        target, against = map(self.program.vocabulary.index, words)
        return {"target": target, "against": against, "token": question.position}

    def target_logits(self, outputs: Outputs) -> Tensor:
        """Logits to explain, one for each question, of a run over all ``rows``."""
        starts = np.cumsum([0, *(1 + len(each.tokens) for each in self.questions)])
        targets = [self.target(each) for each in self.questions]
        places = [start + each["token"] for start, each in zip(starts, targets, strict=False)]
        logits_NV = outputs.by_head[self.program.head.name][places]
        chosen_N = logits_NV[range(len(targets)), [each["target"] for each in targets]]
        if self.program.predicts_numbers:
            return chosen_N
        return chosen_N - logits_NV[range(len(targets)), [each["against"] for each in targets]]


Part = TypeVar("Part")
HeadMethod = Callable[[StudiedProgram], np.ndarray]
"""Values (layers, heads) of the heads of a model."""


def ablation(studied: StudiedProgram) -> np.ndarray:
    """Mean absolute change of the logit when the output of a head is zero."""
    (site,) = studied.model.sites

    def logits(model: ModelRunner) -> Tensor:
        with torch.inference_mode():
            return studied.target_logits(model.run(studied.rows))

    whole_N, changes_LH = logits(studied.model), np.zeros((site.layers, site.heads[0]))
    for (_, layer, head), off in head_edits(studied.model).items():
        edited_N = logits(studied.model.edited(off.edits))
        changes_LH[layer, head] = (edited_N - whole_N).abs().mean()
    return changes_LH


def patching(studied: StudiedProgram) -> np.ndarray:
    """Mean absolute effect of the clean output of a head in a run on the other tokens."""
    model, effects = studied.model, []
    for each in studied.questions:
        clean, other = (studied.program.read(model, tokens) for tokens in each[:2])
        runs = TwoRuns.of(model, studied.program.name, clean, other, **studied.target(each))
        effects.append(patch(runs, HEADS).maps[0].values_LC)
    return np.mean(np.abs(effects), axis=0)


def direct_contributions(studied: StudiedProgram) -> np.ndarray:
    """Mean absolute contribution of a head to the logit of the output."""
    values, heads = [], studied.program.heads_per_layer
    for each, rows in zip(studied.questions, studied.rows, strict=True):
        shares = contributions(studied.model, "", rows, **studied.target(each))
        values.append(shares.grids[0].values_LC[:, :heads])
    return np.mean(np.abs(values), axis=0)


def importance(studied: StudiedProgram) -> np.ndarray:
    """Mean absolute gradient of the logit by a gate of the head."""

    def total(outputs: Outputs) -> Tensor:
        return studied.target_logits(outputs).sum()

    (values_LH,) = head_importance(studied.model, [(studied.rows, total)]).values()
    return values_LH


def roles(studied: StudiedProgram) -> np.ndarray:
    """1 for a head with a role in the heads report, other than a sink, else 0."""
    report = report_heads(studied.model, studied.program.name, studied.rows)
    named = [float(bool({*each.roles} - {UNREAD})) for each in report.heads]
    return np.reshape(named, (-1, studied.program.heads_per_layer))


HEAD_METHODS: Mapping[str, HeadMethod] = {
    "ablation": ablation,
    "patching": patching,
    "contributions": direct_contributions,
    "importance": importance,
    "roles": roles,
}
"""Methods that name heads."""

WORD_METHODS = methods()
"""Methods of attribution, which name words."""


def score_heads(method: str, studied: Iterable[StudiedProgram]) -> LabelScore:
    """Precision and recall, in percent, of the heads that a method names in models of programs."""
    counts = []
    for each in studied:
        circuit = {*each.program.circuit.heads}
        named = _named(dict(np.ndenumerate(HEAD_METHODS[method](each))))
        counts.append((len(named & circuit), len(circuit), len(named)))
    return label_score("heads", tuple(np.sum(counts, axis=0)))


def score_words(method: str, studied: Iterable[StudiedProgram]) -> LabelScore:
    """Precision and recall of the words that a method of attribution names, over all questions."""
    counts = []
    for each in studied:
        for question in each.questions:
            gold = each.program.words_read(question.tokens, question.position)
            named = _named(_word_values(method, each, question))
            counts.append((len(named & gold), len(gold), len(named)))
    return label_score("words", tuple(np.sum(counts, axis=0)))


def _word_values(method: str, studied: StudiedProgram, question: Question) -> dict[int, float]:
    """Attributions of the output to the words, by their positions."""
    text = studied.program.text(question.tokens)
    function = TargetFunction.of(studied.model, text, token=question.position)
    (values_W,) = WORD_METHODS[method](function).weights_MW
    groups = zip(function.given.groups, values_W.tolist(), strict=True)
    return {position: value for (position,), value in groups if position > 0}


def _named(values: Mapping[Part, float]) -> set[Part]:
    """Heads or words whose value is at least a share of the largest."""
    least = max(ROUNDING, NAMED * max(map(abs, values.values())))
    return {part for part, value in values.items() if abs(value) >= least}
