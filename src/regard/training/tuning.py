"""Fine-tuning an encoder: its start, its examples in memory, and its judge."""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from regard.data.readers import read
from regard.data.sampler import Sampler, shuffled
from regard.data.sources import DropCounts
from regard.ground.batch import Batch, BatchLimits, TokenRow
from regard.ground.errors import BadInput
from regard.models.facts import FirstToken, TrunkWithHeads, change
from regard.text.encoder_tokenizer import EncoderTokenizer, train_wordpiece
from regard.text.labels import LabelSet
from regard.training.distributed import World
from regard.training.encoding import TASK_HEADS, Encoding
from regard.training.examples import SPLIT, mean_likelihood, shared_out
from regard.training.kinds import KINDS, Coded, Judgement, Kind
from regard.training.loop.events import DevResult
from regard.training.recipe import Recipe
from regard.training.recipe.data_config import FilesConfig
from regard.training.run_paths import RunPaths


@dataclass(frozen=True)
class InMemory:
    """Examples to learn from and to choose by, as rows; ``asked`` are the latter as they are.

    ``sizes`` counts examples, of which a long one becomes several rows.
    """

    recipe: Recipe
    labels: LabelSet | None
    train: Sequence[Coded]
    dev: Sequence[Coded]
    asked: Sequence[Any]
    dropped: DropCounts
    sizes: dict[str, int]

    @property
    def mark(self) -> str:
        """What the training data is, in short: a resumed run says if it has changed."""
        sums = reduce(lambda sums, one: zlib.crc32(_content(*one), sums), self.train, 0)
        return f"{len(self.train)} rows, {sums:08x}"

    def sampler(self, objective: Any) -> Sampler:
        """Batches without end."""
        limits = self.recipe.batches
        return Sampler(
            lambda epoch, indices: [self.train[i] for i in indices],
            objective.length,
            len(self.train),
            BatchLimits(limits.tokens, limits.rows, limits.longest),
            self.recipe.train.seed,
            mixed=limits.mixed,
            dropped=self.dropped,
        )

    def dev_batches(self, objective: Any, world: World) -> Iterator[Batch]:
        """My share of the development set."""
        return shared_out(self.dev, objective, self.recipe, world)


class Tuning(Encoding):
    """The tasks "classify", "tag", "answer" and "choose" of an encoder."""

    follow = ("vocab", "outputs", "output_heads")

    @cached_property
    def kind(self) -> Kind:
        """Which of them."""
        return KINDS[self.recipe.task](self.recipe)

    def headed(self, facts: TrunkWithHeads) -> TrunkWithHeads:
        """One more layer, over the pooled state or over each token."""
        head = self.kind.head(facts.trunk.stack.dropout)
        pool = (facts.pool or FirstToken()) if head.per_row else None
        return replace(facts, output_heads=(head,), pool=pool)

    def check_data(self, data: Path, skip_bad: bool) -> dict[str, int]:
        """The size of each test set; what is wrong with them is said before anything is written."""
        sizes = {}
        for name, files in self.recipe.data.tests.items():
            sizes[name] = len(self.read(files, data, DropCounts() if skip_bad else None))
            if not sizes[name]:
                raise BadInput(f"{files.file}: no examples to test on")
        return sizes

    def read(self, files: FilesConfig, data: Path, dropped: DropCounts | None = None) -> list[Any]:
        """The examples of a file."""
        given = files.read(data)
        return list(
            read(self.recipe.task, given.reader, given.path, dropped=dropped, **given.options)
        )

    def prepared(self, place: RunPaths) -> tuple[Any, InMemory]:
        """The vocabulary with labels, and all examples as rows."""
        dropped, given = DropCounts(), self.recipe.data
        may_drop = dropped if place.skip_bad else None
        train = self.read(given.train, place.data, may_drop)
        if given.dev.held_out:
            train, dev = _split(train, given.dev.held_out)
        else:
            dev = self.read(given.dev, place.data, place.dropping())
        if not train or not dev:
            raise BadInput(f"{given.train.file}: no examples to learn from, or none to choose by")
        text, labels = self.text(place, partial(self._learned, train)), self.kind.labels(train)
        of_train, of_dev = (self.kind.coded(text, labels, examples) for examples in (train, dev))
        for files in (given.test, *given.more_tests.values()):
            if files is not None:  # what it could not be judged by is said before training
                self.kind.coded(text, labels, self.read(files, place.data, place.dropping()))
        sizes = {"train": len(train), "dev": len(dev)}
        return text, InMemory(self.recipe, labels, of_train, of_dev, dev, dropped, sizes)

    def _learned(self, train: Sequence[Any]) -> EncoderTokenizer:
        texts = (text for example in train for text in self.kind.texts(example))
        return train_wordpiece(texts, self.recipe.text.vocab, lower=self.recipe.text.lower)

    def fitted(
        self, facts: TrunkWithHeads, text: EncoderTokenizer, labels: LabelSet | None
    ) -> TrunkWithHeads:
        """The facts with as many outputs as there are labels, and words where none were known."""
        if labels is not None:
            facts = change(facts, outputs=len(labels))
        if self.recipe.model.start is None:
            facts = change(facts, vocab=len(text.words))
        return facts

    def objective(self, text: Any, examples: InMemory) -> Any:
        """What is learned."""
        return self.kind.objective(examples.labels, examples.train)

    def flops(self, facts: TrunkWithHeads, lengths: Sequence[tuple[int, ...]]) -> float:
        """What a step costs."""
        return facts.training_flops(lengths)

    def notes(self) -> dict[str, Any]:
        """What the model must remember of its recipe to be asked as it was trained."""
        answers = self.recipe.answers.settings if self.recipe.task == "answer" else {}
        return {"longest": self.recipe.batches.longest, **answers}

    def judged(
        self, model: Any, files: FilesConfig, data: Path, dropped: DropCounts | None = None
    ) -> Judgement:
        """A tuned model on the examples of a file, asked as it was trained, with intervals."""
        if model.facts.head(TASK_HEADS[self.recipe.task]) is None:
            raise BadInput(f"this model was not tuned to {self.recipe.task}")
        return self.kind.judged(model.predictor, self.read(files, data, dropped), True)

    def judge(self, text: Any, examples: InMemory, world: World, model: nn.Module) -> DevResult:
        """Negative log-likelihood of the development set, and the measures of the task."""
        objective = self.objective(text, examples)
        likelihood = mean_likelihood(
            objective, examples.dev_batches(objective, world), model, world
        )
        figures, judge = {"loss": likelihood}, self.recipe.train.judge
        if judge == "loss":
            return DevResult(-figures["loss"], figures)
        figures |= world.from_leader(lambda: self._scores(text, examples, model))
        if judge not in figures:
            raise BadInput(f"train.judge: {judge!r} is not measured here: {', '.join(figures)}")
        return DevResult(figures[judge], figures)

    def _scores(self, text: Any, examples: InMemory, model: nn.Module) -> dict[str, float]:
        runner = self.kind.runner(model, text, examples.labels)
        scores = self.kind.judged(runner, examples.asked).scores
        return {score.name: score.value for score in scores}


def _content(rows: TokenRow | Sequence[TokenRow], goal: Any) -> bytes:
    """An example as bytes."""
    parts = chain(rows if isinstance(rows, TokenRow) else chain(*rows), [goal])
    return b"|".join(np.asarray(part).tobytes() for part in parts)


def _split(examples: list[Any], held_out: int) -> tuple[list[Any], list[Any]]:
    """Examples to learn from, and those held out: the same for every seed."""
    count = len(examples)
    if held_out >= count:
        raise BadInput(f"data.dev.held_out: {held_out:,} of {count:,} leaves nothing to learn")
    order_N = shuffled(np.arange(count), count, SPLIT)
    return [examples[i] for i in order_N[held_out:]], [examples[i] for i in order_N[:held_out]]
