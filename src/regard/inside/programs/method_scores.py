"""Scores of methods on compiled programs: which heads and words of a known circuit each names.

A method gives every head of a model, or every word of an input, a value. It names those whose
absolute value is at least ``NAMED`` of the largest. Precision and recall compare them with the
heads of the circuit, or with the words that the circuit reads on that input.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.ground.edits import without_head
from regard.ground.tape import Edit, Tape
from regard.inside.attribution.methods import methods
from regard.inside.attribution.target_function import TargetFunction
from regard.inside.heads.importance import head_importance
from regard.inside.heads.report_heads import report_heads
from regard.inside.inspected_model import InspectedModel, LabelledRows
from regard.inside.programs.compiler import Program
from regard.inside.stream.contributions import contributions
from regard.inside.stream.patching import HEADS, TwoRuns, patch
from regard.metrics.precision_recall import LabelScore, label_score
from regard.models.trunk_with_heads import Outputs

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
    model: InspectedModel
    questions: Sequence[Question]

    @classmethod
    def build(cls, program: Program, questions: int, seed: int = 0) -> "StudiedProgram":
        """Build the model; ``seed`` draws its decoys and the questions."""
        return cls(program, program.inspected(seed), draw_questions(program, questions, seed))

    @property
    def rows(self) -> list[LabelledRows]:
        """Rows of the tokens of all questions."""
        return [self.program.read(self.model, each.tokens) for each in self.questions]

    def targets(self, question: Question) -> dict[str, int]:
        """Logit to explain: of the output, minus the logit of the output for the other tokens."""
        if self.program.predicts_numbers:
            return {"target": 0, "token": question.position}
        pair = (self.program.run(tokens) for tokens in (question.tokens, question.others))
        words = (outputs[question.position - 1] for outputs in pair)
        target, against = map(self.program.vocabulary.index, words)
        return {"target": target, "against": against, "token": question.position}


Part = TypeVar("Part")
HeadMethod = Callable[[StudiedProgram], np.ndarray]
"""Values (layers, heads) of the heads of a model."""


def ablation(studied: StudiedProgram) -> np.ndarray:
    """Mean absolute change of all logits when the output of a head is zero."""
    (site,) = studied.model.sites

    def logits(edits: Mapping[str, Edit]) -> Tensor:
        with torch.inference_mode():
            outputs = studied.model.run(studied.rows, Tape(edits=edits))
        return outputs.by_head[studied.program.head.name]

    whole_TV, changes_LH = logits({}), np.zeros((site.layers, site.heads[0]))
    for layer, head in np.ndindex(changes_LH.shape):
        edits = {f"{site.tape_path.format(layer=layer)}.{HEADS}": without_head(head)}
        changes_LH[layer, head] = (logits(edits) - whole_TV).abs().mean()
    return changes_LH


def patching(studied: StudiedProgram) -> np.ndarray:
    """Mean absolute effect of the clean output of a head in a run on the other tokens."""
    model, effects = studied.model, []
    for each in studied.questions:
        clean, other = (studied.program.read(model, tokens) for tokens in each[:2])
        runs = TwoRuns.of(model, studied.program.name, clean, other, **studied.targets(each))
        effects.append(patch(runs, HEADS).maps[0].values_LC)
    return np.mean(np.abs(effects), axis=0)


def direct_contributions(studied: StudiedProgram) -> np.ndarray:
    """Mean absolute contribution of a head to the logit of the output."""
    values, heads = [], studied.program.heads_per_layer
    for each, rows in zip(studied.questions, studied.rows, strict=True):
        shares = contributions(studied.model, "", rows, **studied.targets(each))
        values.append(shares.grids[0].values_LC[:, :heads])
    return np.mean(np.abs(values), axis=0)


def importance(studied: StudiedProgram) -> np.ndarray:
    """Mean absolute gradient of the loss of the program's outputs by a gate of the head."""
    program, expected, counted = studied.program, [], []
    for question in studied.questions:
        outputs = program.run(question.tokens)
        numbers = outputs if program.predicts_numbers else map(program.vocabulary.index, outputs)
        expected += [0, *numbers]
        counted += [False] + [True] * len(outputs)

    def loss(outputs: Outputs) -> Tensor:
        logits_NV, targets_N = outputs.by_head[program.head.name][counted], np.array(expected)
        gold_N = torch.from_numpy(targets_N[counted])
        if program.predicts_numbers:
            return F.mse_loss(logits_NV[:, 0], gold_N.to(logits_NV), reduction="sum")
        return F.cross_entropy(logits_NV, gold_N, reduction="sum")

    (values_LH,) = head_importance(studied.model, [(studied.rows, loss)]).values()
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
