"""What a run needs to know of classification: its labels, facts, objective and judge."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import nn

from regard.ground.errors import BadInput
from regard.ground.tape import Tape
from regard.metrics.classification import MEASURES, Measure, f1_of_class
from regard.models import paper, sized
from regard.models.cost import classifier_flops
from regard.models.facts import ClassifierFacts, change
from regard.models.paper import Paper
from regard.objectives.labelled import Labelled
from regard.text.labels import LabelledText, Labels
from regard.text.train_tokenizer import train as train_subwords
from regard.training.events import Verdict
from regard.training.examples import Examples
from regard.training.paired import Paired
from regard.training.ranks import Ranks
from regard.training.translating import pair
from regard.training.weights import class_weights

FOLLOWS = {"vocab": "text.vocab", "classes": "the labels of the training data"}


@dataclass(frozen=True)
class Labelling(Paired):
    """The task "classify"."""

    def facts(self, data: Path) -> tuple[Paper, ClassifierFacts]:
        """The model, but for its vocabulary and the number of classes."""
        wanted = self.recipe.model
        for name in wanted.change:
            if (what := name.split(".")[-1]) in FOLLOWS:
                raise BadInput(f"model.change.{name} follows from {FOLLOWS[what]}")
        facts = sized(f"{wanted.paper}:{wanted.size}")
        if not isinstance(facts, ClassifierFacts):
            raise BadInput(f"model.paper: {wanted.paper} is no classifier")
        if wanted.target is not None:
            raise BadInput("model.target: a classifier writes nothing")
        if wanted.source is not None:
            facts = replace(facts, reader=pair(wanted.source).source)
        return paper(wanted.paper), change(facts, **wanted.change)

    def learn_text(self, pairs: Sequence[tuple[str, str]]) -> LabelledText:
        """The vocabulary of the training text, and the labels that occur."""
        text, labels = self.recipe.text, self.recipe.labels
        known = Labels.of((label for _, label in pairs), labels.names or {})
        words = train_subwords(
            (one for one, _ in pairs),
            text.kind,
            text.vocab,
            normalise=text.normalise,
            lower=text.lower,
        )
        for name in labels.weights if isinstance(labels.weights, dict) else ():
            known.name(name, "labels.weights")
        self._check_judge(known)
        return LabelledText(words, known)

    def load_text(self, folder: Path) -> LabelledText:
        """Those of an earlier run."""
        return LabelledText.load(folder)

    def check(self, text: LabelledText, pairs: Iterable[tuple[str, str, str]]) -> None:
        """Every label must be one that can be learned."""
        for where, _, label in pairs:
            text.labels.name(label, where)

    def fitted(self, facts: ClassifierFacts, text: LabelledText) -> ClassifierFacts:
        """The facts with the sizes of vocabulary and labels."""
        return change(facts, vocab=len(text.words), classes=len(text.labels))

    def objective(self, text: LabelledText, examples: Examples) -> Labelled:
        """What is learned, each class weighing what the recipe says."""
        weights = class_weights(text.labels, self.recipe.labels.weights, examples.second_sides())
        return Labelled(self.recipe.train.smoothing, weights)

    def flops(self, facts: ClassifierFacts, lengths: Sequence[tuple[int]]) -> float:
        """What a step costs."""
        return classifier_flops(facts, [length for (length,) in lengths])

    def judge(
        self, text: LabelledText, examples: Examples, ranks: Ranks, model: nn.Module
    ) -> Verdict:
        """Negative log-likelihood of the development set, and the measures of classes."""
        objective, classes = Labelled(), len(text.labels)
        loss = torch.zeros((), dtype=torch.float64, device=ranks.device)
        counts = torch.zeros(classes * classes, dtype=torch.float64, device=ranks.device)
        with torch.inference_mode():
            for batch in examples.dev_batches(objective, ranks):
                tape = Tape("logits")
                loss += objective(model, batch, tape)[1]
                taken_B = batch.goals_T * classes + tape.kept["logits"].argmax(-1)
                counts += taken_B.bincount(minlength=classes * classes)
        counts_VV = ranks.total(counts).view(classes, classes).cpu().numpy()
        figures = {"loss": float(ranks.total(loss)) / counts_VV.sum()}
        figures |= {name: 100 * of(counts_VV) for name, of in self._measures(text.labels).items()}
        judge = self.recipe.train.judge
        return Verdict(-figures["loss"] if judge == "loss" else figures[judge], figures)

    def _measures(self, labels: Labels) -> dict[str, Measure]:
        """What is measured of how often each class (down) is taken for each (across)."""
        positive = self.recipe.labels.positive
        if positive is None:
            return MEASURES
        number = labels.names.index(labels.name(positive, "labels.positive"))
        return {**MEASURES, "F1": partial(f1_of_class, number=number)}

    def _check_judge(self, labels: Labels) -> None:
        judge, measured = self.recipe.train.judge, ("loss", *self._measures(labels))
        if judge not in measured:
            raise BadInput(f"train.judge: {judge!r} is not measured here: {', '.join(measured)}")
