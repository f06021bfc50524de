"""What a run needs to know of classification: its labels, facts, objective and judge."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.ground.errors import BadInput
from regard.ground.tape import Tape
from regard.metrics.classification import MEASURES, Measure, f1_of_class
from regard.models.facts import LabelHead, TrunkWithHeads, change
from regard.models.paper import Paper
from regard.models.papers import paper, sized
from regard.objectives.labels import Classification
from regard.text.labels import LabelSet, SingleLabelSet
from regard.text.plain_tokenizer import PlainTokenizer
from regard.text.train_tokenizer import train as train_subwords
from regard.training.class_weights import class_weights
from regard.training.distributed import World
from regard.training.examples import Examples
from regard.training.loop.events import DevResult
from regard.training.paired import Paired
from regard.training.translating import pair

FOLLOWS = {"vocab": "text.vocab", "outputs": "the labels of the training data"}


@dataclass(frozen=True)
class Labelling(Paired):
    """The task "classify"."""

    def facts(self, data: Path) -> tuple[Paper, TrunkWithHeads]:
        """The model, but for its vocabulary and the number of classes."""
        wanted = self.recipe.model
        for name in wanted.change:
            if (what := name.split(".")[-1]) in FOLLOWS:
                raise BadInput(f"model.change.{name} follows from {FOLLOWS[what]}")
        facts = sized(f"{wanted.paper}:{wanted.size}")
        if not isinstance(facts, TrunkWithHeads):
            raise BadInput(f"model.paper: {wanted.paper} is no classifier")
        if wanted.target is not None:
            raise BadInput("model.target: a classifier writes nothing")
        if wanted.source is not None:
            facts = replace(facts, trunk=pair(wanted.source).source)
        facts = facts.with_heads(LabelHead(2, facts.trunk.stack.dropout))
        return paper(wanted.paper), change(facts, **wanted.change)

    def labels(self, pairs: Sequence[tuple[str, str]]) -> LabelSet:
        """The labels that occur."""
        asked = self.recipe.labels
        labels = SingleLabelSet.of((label for _, label in pairs), asked.names or {})
        for name in asked.weights if isinstance(asked.weights, dict) else ():
            labels.name(name, "labels.weights")
        self._check_judge(labels)
        return labels

    def learn_text(self, pairs: Sequence[tuple[str, str]]) -> PlainTokenizer:
        """The vocabulary of the training text."""
        text = self.recipe.text
        words = train_subwords(
            (one for one, _ in pairs),
            text.kind,
            text.vocab,
            normalise=text.normalise,
            lower=text.lower,
        )
        return PlainTokenizer(words)

    def load_text(self, folder: Path) -> PlainTokenizer:
        """That of an earlier run."""
        return PlainTokenizer.load(folder)

    def sides(self, tokenizer: PlainTokenizer, labels: LabelSet | None) -> tuple[Any, Any]:
        """The vocabulary, and the labels."""
        return tokenizer.words, labels

    def check(self, labels: LabelSet | None, pairs: Iterable[tuple[str, str, str]]) -> None:
        """Every label must be one that can be learned."""
        assert labels is not None
        for where, _, label in pairs:
            labels.name(label, where)

    def fitted(
        self, facts: TrunkWithHeads, tokenizer: PlainTokenizer, labels: LabelSet
    ) -> TrunkWithHeads:
        """The facts with the sizes of vocabulary and labels."""
        return change(facts, vocab=len(tokenizer.words), outputs=len(labels))

    def objective(self, tokenizer: PlainTokenizer, examples: Examples) -> Classification:
        """What is learned, each class weighing what the recipe says."""
        assert examples.labels is not None
        asked = self.recipe.labels.weights
        weights = class_weights(examples.labels, asked, examples.second_sides())
        return Classification(self.recipe.train.smoothing, weights)

    def flops(self, facts: TrunkWithHeads, lengths: Sequence[tuple[int, ...]]) -> float:
        """What a step costs."""
        return facts.training_flops(lengths)

    def judge(
        self, tokenizer: PlainTokenizer, examples: Examples, world: World, model: nn.Module
    ) -> DevResult:
        """Negative log-likelihood of the development set, and the measures of classes."""
        assert examples.labels is not None
        objective, classes = Classification(), len(examples.labels)
        loss = torch.zeros((), dtype=torch.float64, device=world.device)
        counts = torch.zeros(classes * classes, dtype=torch.float64, device=world.device)
        with torch.inference_mode():
            for batch in examples.dev_batches(objective, world):
                tape = Tape("heads.label.logits")
                loss += objective(model, batch, tape)[1]
                taken_B = batch.targets["label"] * classes + tape.kept["heads.label.logits"].argmax(
                    -1
                )
                counts += taken_B.bincount(minlength=classes * classes)
        counts_VV = world.all_reduce(counts).view(classes, classes).cpu().numpy()
        figures = {"loss": float(world.all_reduce(loss)) / counts_VV.sum()}
        measures = self._measures(examples.labels)
        figures |= {name: 100 * of(counts_VV) for name, of in measures.items()}
        judge = self.recipe.train.judge
        return DevResult(-figures["loss"] if judge == "loss" else figures[judge], figures)

    def _measures(self, labels: LabelSet) -> dict[str, Measure]:
        """What is measured of how often each class (down) is taken for each (across)."""
        positive = self.recipe.labels.positive
        if positive is None:
            return MEASURES
        number = labels.names.index(labels.name(positive, "labels.positive"))
        return {**MEASURES, "F1": partial(f1_of_class, number=number)}

    def _check_judge(self, labels: LabelSet) -> None:
        judge, measured = self.recipe.train.judge, ("loss", *self._measures(labels))
        if judge not in measured:
            raise BadInput(f"train.judge: {judge!r} is not measured here: {', '.join(measured)}")
