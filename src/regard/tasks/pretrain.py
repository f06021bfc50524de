"""Pre-training on documents (Devlin et al., 2018): a trunk learns the objectives of its recipe."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import torch
from torch import nn

from regard.data.datasets.dataset import Batching, TrainingData, held_out_indices
from regard.data.datasets.documents import DocumentDataset
from regard.data.files.fields import DropCounts
from regard.data.pretraining.documents import Documents, tokenize_documents
from regard.ground.device import seed_generators
from regard.ground.errors import BadInput
from regard.inference.score_text import TextScore
from regard.metrics.translation import MetricScore
from regard.models.facts import change
from regard.models.folders.loaded_model import LoadedModel
from regard.models.paper import Paper
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.objectives.list import ObjectivesConfig, paper_with_objectives
from regard.objectives.sum import Sum
from regard.tasks.run_paths import RunPaths
from regard.tasks.task import Prepared, Processes, TaskScores
from regard.tasks.trunk_task import TrunkTask
from regard.text.config import EncoderTextConfig
from regard.text.tokenizers.list import PLAIN
from regard.text.tokenizers.row_tokenizer import RowTokenizer

TEACHER = "objective.distillation.teacher"
DEV_SEED = 0  # the targets of development sets are the same for every seed
PERPLEXITY = "perplexity"
SAMPLE = 50_000_000  # characters that a vocabulary is learned from, at most


class Pretrain(TrunkTask):
    """The task "pretrain"."""

    name, unit = "pretrain", "documents"
    test_metrics = (PERPLEXITY,)
    tables: ClassVar = {"text": EncoderTextConfig, "objective": ObjectivesConfig}
    decided: ClassVar = {
        "vocab": "text.vocab",
        "output_heads": "the objectives",
        "pool": "the objectives",
    }

    @cached_property
    def objectives(self) -> Sum:
        """What the recipe lists, or else its paper."""
        with self._naming_paper():
            return self.table(ObjectivesConfig).sum(self.recipe.train.smoothing)

    @contextmanager
    def _naming_paper(self) -> Iterator[None]:
        """If the recipe does not list objectives, messages about them say whose they are."""
        try:
            yield
        except BadInput as error:
            if "objective" not in self.recipe.by_default:
                raise
            paper = paper_with_objectives(self.recipe.model.paper)
            own = f"{paper.name}'s own objectives ({', '.join(paper.pretraining)})"
            raise BadInput(f"{error}; {own} are used where a recipe has no [objective]") from None

    @property
    def vocabulary_key(self) -> str | None:
        if (key := super().vocabulary_key) is not None:
            return key
        listed: Any = self.table(ObjectivesConfig)
        return None if listed.distillation is None else TEACHER

    def vocabulary(self, data: Path) -> RowTokenizer | None:
        start, teacher = super().vocabulary(data), self._teacher(data)
        if teacher is None:
            return start
        of_teacher = cast(RowTokenizer, teacher.tokenizer)
        if start is not None and start.words.fingerprint != of_teacher.words.fingerprint:
            raise BadInput(f"{TEACHER}: its vocabulary is not that of model.start")
        return start or of_teacher

    def _teacher(self, data: Path) -> LoadedModel | None:
        """The teacher of a distillation, if there is one."""
        return self.objectives.open(data, self.recipe.batches.longest)

    def facts(self, data: Path) -> tuple[Paper, TrunkWithHeads]:
        paper, facts = super().facts(data)
        if (teacher := self._teacher(data)) is not None:
            self.vocabulary(data)
            if teacher.paper.tokenizer != paper.tokenizer:
                kinds = f"{teacher.paper.tokenizer}, that of {paper.name} is {paper.tokenizer}"
                raise BadInput(f"{TEACHER}: its tokenizer is {kinds}")
            if not self.recipe.model.starts_whole:
                facts = change(facts, vocab=teacher.facts.sizes["tokens"])
        if paper.tokenizer == PLAIN:
            raise BadInput(f"model: the tokenizer of {paper.name} has no special tokens to mask by")
        with self._naming_paper():
            self.objectives.check(facts)
            self.objectives.check_vocabulary(self._vocabulary_size(data))
            if self.recipe.batches.mixed and self.objectives.carries_state:
                raise BadInput("batches.mixed: rows are parts of streams, which keep their order")
        return paper, self.objectives.extend(facts, paper.fit_heads)

    def _vocabulary_size(self, data: Path) -> int:
        """Of the tokenizer that is given, or that will be learned, at most."""
        given: Any = self.vocabulary(data)
        return self.table(EncoderTextConfig).vocab if given is None else len(given.training_words)

    def with_heads(self, facts: TrunkWithHeads) -> TrunkWithHeads:
        return self.objectives.fit(facts)

    def begin(self, model: Any, data: Path, prepared: Prepared) -> tuple[str, ...]:
        return super().begin(model.main, data, prepared)

    @property
    def allows_smoothing(self) -> bool:
        return self.table(ObjectivesConfig).smooth

    @property
    def metrics(self) -> Collection[str]:
        return self.test_metrics if self.table(ObjectivesConfig).score_texts else ()

    def unread_keys(self) -> Iterator[str]:
        yield from super().unread_keys()
        data = self.recipe.data
        tests = () if self.table(ObjectivesConfig).score_texts else ("test", "more_tests")
        yield from (f"data.{key}" for key in tests if getattr(data, key))

    def check_data(self, data: Path, skip_bad: bool) -> dict[str, int]:
        given, dropped = self.recipe.data, DropCounts() if skip_bad else None
        for files in (given.train, given.dev, *given.tests.values()):
            if files.held_out is None:
                for path in files.collection(data).paths:
                    if not Path(path).is_file():
                        raise BadInput(f"{path}: no such file or folder")
        for name, files in given.tests.items():
            files.require([*islice(self._texts(files, data, dropped), 1)], name, self.unit)
        return {}

    def prepare(self, folder: RunPaths) -> Prepared:
        given, dropped = self.recipe.data, DropCounts()
        tokenizer = self.tokenizer(folder, lambda: self._sentences(folder))
        train = self._tokenize("train", given.train, tokenizer, folder, dropped)
        if given.dev.held_out is None:
            dev = self._tokenize("dev", given.dev, tokenizer, folder, DropCounts())
            given.dev.require(dev, "dev", self.unit)
        else:
            train_N, dev_N = map(np.sort, held_out_indices(len(train), given.dev.held_out))
            held_out = f"data.dev.held_out ({len(dev_N):,} of {train.name})"
            train, dev = train.chosen(train_N), train.chosen(dev_N, held_out)
        self.objectives.to(folder.device)
        batching = Batching.of(self.recipe)
        objectives = self.objectives.count_words(train, len(tokenizer.training_words))
        rows = self._rows(objectives, train, tokenizer, self.recipe.train.seed)
        dev_rows = self._rows(objectives, dev, tokenizer, DEV_SEED)
        dev_streams = objectives.dev_streams(dev_rows, batching.limits)
        dataset = TrainingData(
            batching=batching,
            train=objectives.train_streams(rows, batching.limits)
            if objectives.carries_state
            else rows,
            dev=(dev_streams or dev_rows).read_all(),
            sizes={"train": len(train), "dev": len(dev)},
            dropped=dropped,
            dev_streams=0 if dev_streams is None else dev_streams.rows,
        )
        return Prepared(tokenizer, None, dataset)

    def _rows(
        self, objectives: Sum, documents: Documents, tokenizer: RowTokenizer, seed: int
    ) -> DocumentDataset:
        longest = self.recipe.batches.longest
        plan = objectives.rows(documents, tokenizer.template, longest, seed)
        return DocumentDataset(documents, plan, objectives.annotator(tokenizer), seed)

    def _sentences(self, folder: RunPaths) -> Iterator[str]:
        """The sentences to learn from, or evenly sampled ones if they are too many."""
        given = self.recipe.data

        def documents() -> Iterator[tuple[int, list[str]]]:
            """The sentences of each document that has some, in parts, by its number."""
            source, whole = given.train.collection(folder.data), self.objectives.whole_texts
            number = 0
            for part in source.parts(folder.dropping(), whole=whole):
                if part.texts:
                    yield number, part.texts
                    number += part.is_last

        sizes: list[int] = []
        for number, sentences in documents():
            sizes += [0] * (number == len(sizes))
            sizes[number] += sum(map(len, sentences))
        given.train.require(sizes, "train", self.unit)
        chosen = np.ones(len(sizes), dtype=bool)
        if given.dev.held_out is not None:
            chosen[held_out_indices(len(sizes), given.dev.held_out)[1]] = False
        share = min(1.0, SAMPLE / max(1, sum(np.array(sizes)[chosen].tolist())))
        to_learn = (sentences for number, sentences in documents() if chosen[number])
        return sample((sentence for sentences in to_learn for sentence in sentences), share)

    def objective(self, prepared: Prepared) -> Sum:
        return self.objectives

    def flops(self, facts: Any, lengths: Sequence[tuple[int, ...]]) -> float:
        return self.objectives.flops(facts, lengths)

    def evaluate_dev(
        self, prepared: Prepared, processes: Processes, model: nn.Module
    ) -> dict[str, float]:
        members, device = self.objectives.members, processes.device
        sums = [torch.zeros(one.dev_size, dtype=torch.float64, device=device) for one in members]
        seed_generators(DEV_SEED)  # of samples of a generator; steps of training have their own
        dataset, state = prepared.dataset, None
        with torch.inference_mode():
            if dataset.dev_streams:
                state = self.objectives.initial_state(model, len(dataset.own_streams(processes)))
            for batch in dataset.dev_batches(self.objectives, processes):
                outputs = self.objectives.outputs(model, replace(batch, state=state))
                state = outputs.state
                for total, member in zip(sums, members, strict=True):
                    for number, one in enumerate(member.dev_sums(outputs, batch)):
                        total[number] += one
        metrics = {"loss": 0.0}
        for total, member in zip(sums, members, strict=True):
            loss, count, *others = processes.all_reduce(total).tolist()
            metrics["loss"] += member.loss_weight * loss / count
            metrics |= member.dev_metrics(loss / count, count, *others)
            metrics |= member.text_metrics(loss / count, prepared.tokenizer, dataset.dev)
        return metrics

    def read(self, files: Any, data: Path, dropped: DropCounts | None = None) -> list[str]:
        return [*self._texts(files, data, dropped)]

    def _texts(self, files: Any, data: Path, dropped: DropCounts | None) -> Iterator[str]:
        return (text for text in files.collection(data).texts(dropped) if text.strip())

    def test_scores(
        self, model: Any, examples: Sequence[str], with_interval: bool = False
    ) -> TaskScores:
        if with_interval:
            raise BadInput("perplexity has no interval")
        runner = model.encoder
        words, scorer = runner.text.words, runner.scorer()
        separated = runner.text.template.separated
        rows = [separated(ids) for ids in words.encode_all(examples) if ids]
        if self.objectives.joins_documents:
            rows = [[token for row in rows for token in row]]
        score = TextScore.total(scorer.predict(rows))
        signature = f"tokens:{len(score.logprobs)}|{scorer.signature}"
        return TaskScores([MetricScore(PERPLEXITY, score.perplexity, signature)])

    def _tokenize(
        self, name: str, files: Any, tokenizer: RowTokenizer, folder: RunPaths, dropped: DropCounts
    ) -> Documents:
        words = tokenizer.training_words
        return tokenize_documents(
            folder.store,
            name,
            files.collection(folder.data),
            words.encode_all,
            vocab=len(words),
            fingerprint=words.fingerprint,
            dropped=dropped if folder.skip_bad else None,
            whole=self.objectives.whole_texts,
        )


def sample(texts: Iterator[str], share: float) -> Iterator[str]:
    """As many of the texts as have this share of all characters, evenly taken, and no more."""
    seen = taken = 0
    for text in texts:
        seen += len(text)
        if taken + len(text) <= seen * share:
            taken += len(text)
            yield text
